"""What `ace openclaw learn` does: one run over what is new, while no other process learns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from pathlib import Path

from ace.cli.errors import UsageError
from ace.durable_file import file_lock
from ace.marked_block import MarkedBlockError
from ace.pipeline import CancellationToken
from ace.protocols import LLMAuthenticationError, LLMCallError, LLMClientLike
from ace.protocols.observers import ModelCalled, SampleEnded, observing
from ace.skill import Provenance
from ace.steps import GuardedKind
from ace_openclaw.home import learner_lock_path, make_ace_folder, skillbook_path
from ace_openclaw.learning_report import LearningReport
from ace_openclaw.runner import OpenClaw

__all__ = ["LEARNER_AT_WORK", "learn_sessions"]

_FOR_ALL_TURNS = (401, 403, 404)
_MOST_FAILURES = 5

LEARNER_AT_WORK = "another 'ace openclaw learn' is at work, and is waited for"
"""What a user is told who has to wait."""


def learn_sessions(
    state: Path,
    sources: Iterable[str],
    *,
    client: LLMClientLike,
    workspace: str | None,
    max_cost: float | None,
    allow: Collection[GuardedKind],
    provenance: Provenance = "full",
    cancel_token: CancellationToken,
    tell: Callable[[str], None],
) -> LearningReport:
    """Learn from all turns that are new.

    Args:
        state: The folder of OpenClaw.
        sources: Where the sessions are; nothing means all of OpenClaw.
        client: The model that learns.
        workspace: Where the skills are left; None for nowhere.
        max_cost: US dollars after which no further turn begins.
        allow: The classes of sensitive text that are neither replaced nor kept out of the skillbook.
        provenance: What is kept of a session besides its skills.
        cancel_token: Stops the learning; what is left is learned the next time.
        tell: Called with sentences for the user during the run.

    Raises:
        LLMCallError: The model cannot be asked at all. Nothing was learned.
        UsageError: There is a limit of the cost, and the price of the model is not known.
    """
    make_ace_folder(state)
    with file_lock(learner_lock_path(state), on_wait=lambda: tell(LEARNER_AT_WORK)):
        runner = OpenClaw.from_client(
            client,
            state_dir=state,
            workspace=workspace,
            skillbook_path=skillbook_path(state),
            allow=allow,
            provenance=provenance,
        )
        model = _ModelWatch(cancel_token, has_limit=max_cost is not None)
        with closing(runner.skillbook), observing(model.see):
            try:
                runner.run(list(sources) or None, cancel_token=cancel_token, max_cost=max_cost)
            except MarkedBlockError as error:
                runner.report.problems.append(str(error))
    if model.problem is not None:
        raise model.problem
    return runner.report


class _ModelWatch:
    """Stops a run whose model cannot be asked at all, instead of asking it about every turn in vain."""

    def __init__(self, token: CancellationToken, *, has_limit: bool) -> None:
        self.problem: Exception | None = None
        self._token = token
        self._has_limit = has_limit
        self._has_answered = False
        self._failures = 0

    def see(self, event: object) -> None:
        if isinstance(event, ModelCalled):
            self._has_answered = True
            if self._has_limit and event.cost is None:
                price = f"the price of the model {event.model!r} is not known"
                self._stop(UsageError(f"--max-cost cannot be kept: {price}"))
        elif isinstance(event, SampleEnded) and isinstance(event.error, LLMCallError) and not self._has_answered:
            self._failures += 1
            # A turn that the model refuses, such as one that is too long for it, must not keep the others from it.
            # A missing key has no status of a server.
            is_for_all = isinstance(event.error, LLMAuthenticationError) or event.error.status_code in _FOR_ALL_TURNS
            if is_for_all or self._failures == _MOST_FAILURES:
                self._stop(event.error)

    def _stop(self, problem: Exception) -> None:
        self.problem = self.problem or problem
        self._token.cancel()
