"""The implementation of `ace openclaw learn`: one run over new turns, while no other process learns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from ace.integrations import ManagedBlockError, ModelCalled, SampleEnded, UsageError, file_lock, observing
from ace.pipeline import CancellationToken
from ace.protocols import LLMAuthenticationError, LLMCallError, LLMClientLike
from ace.runners import SpendLedger
from ace.skill import Provenance, Unproven
from ace.steps import GuardedKind
from ace_openclaw.found_turns import Source
from ace_openclaw.home import ace_folder, learner_lock_path, make_ace_folder, skillbook_path
from ace_openclaw.learning_report import LearningReport
from ace_openclaw.runner import OnResult, OpenClaw
from ace_openclaw.turn_queue import TurnQueue

__all__ = ["LEARNER_AT_WORK", "learn_sessions", "learn_while_locked"]

_FOR_ALL_TURNS = (401, 403, 404)
_MOST_FAILURES = 5

LEARNER_AT_WORK = "waiting for another 'ace openclaw learn' to finish"
"""The message for a user who must wait."""


def learn_sessions(
    state: Path,
    sources: Iterable[str],
    *,
    client: LLMClientLike,
    workspace: str | None,
    max_cost: float | None,
    allow: Collection[GuardedKind],
    provenance: Provenance = "full",
    unproven: Unproven = "pending",
    cancel_token: CancellationToken,
    tell: Callable[[str], None],
) -> LearningReport:
    """Learn from all new turns.

    Args:
        state: The folder of OpenClaw.
        sources: The sources of the sessions; without any, all sessions of OpenClaw.
        client: The client of the model that learns.
        workspace: The folder to which the skills are written, if any.
        max_cost: The cost after which no further turn is started, in US dollars.
        allow: The classes of sensitive text that are not redacted or rejected.
        provenance: What to record about the source of each skill.
        unproven: What to do with skills that nothing shows to be right; see `ace.skill.Unproven`.
        cancel_token: Stops the run; the remaining turns are learned by the next one.
        tell: Called with messages for the user during the run.

    Raises:
        LLMCallError: The model cannot be used at all. Nothing was learned.
        UsageError: The cost is limited, but the price of the model is not known.
    """
    make_ace_folder(state)
    with file_lock(learner_lock_path(state), on_wait=lambda: tell(LEARNER_AT_WORK)):
        named = list(sources)
        queue = None if named else TurnQueue(state, with_given_up=True)
        report = learn_while_locked(
            state,
            named if queue is None else [state, *queue.sessions],
            client=client,
            workspace=workspace,
            max_cost=max_cost,
            needs_price=max_cost is not None,
            allow=allow,
            provenance=provenance,
            unproven=unproven,
            cancel_token=cancel_token,
            on_sample_end=None if queue is None else queue.note,
        )
        if queue is not None:
            queue.settle()
        return report


def learn_while_locked(
    state: Path,
    sources: Sequence[Source],
    *,
    client: LLMClientLike,
    workspace: str | None,
    max_cost: float | None,
    needs_price: bool,
    allow: Collection[GuardedKind],
    provenance: Provenance = "full",
    unproven: Unproven = "pending",
    cancel_token: CancellationToken,
    on_sample_end: OnResult | None = None,
) -> LearningReport:
    """Learn from all new turns. The caller must hold the learner's lock.

    Args:
        state: The folder of OpenClaw.
        sources: The sources of the sessions.
        client: The client of the model that learns.
        workspace: The folder to which the skills are written, if any.
        max_cost: The cost after which no further turn is started, in US dollars.
        needs_price: Whether an unknown price of the model ends the run; otherwise its calls are not counted.
        allow: The classes of sensitive text that are not redacted or rejected.
        provenance: What to record about the source of each skill.
        unproven: What to do with skills that nothing shows to be right; see `ace.skill.Unproven`.
        cancel_token: Stops the run; the remaining turns are learned by the next one.
        on_sample_end: Called with the result of each new turn.

    Raises:
        LLMCallError: The model cannot be used at all. Nothing was learned.
        UsageError: The cost is limited, but the price of the model is not known.
    """
    runner = OpenClaw.from_client(
        client,
        state_dir=state,
        workspace=workspace,
        skillbook_path=skillbook_path(state),
        allow=allow,
        provenance=provenance,
        unproven=unproven,
    )
    model = _ModelWatch(cancel_token, needs_price=needs_price)
    with closing(runner.skillbook), observing(model.see), observing(SpendLedger(ace_folder(state))):
        try:
            runner.run(sources, cancel_token=cancel_token, max_cost=max_cost, on_sample_end=on_sample_end)
        except ManagedBlockError as error:
            runner.report.problems.append(str(error))
    if model.problem is not None:
        raise model.problem
    return runner.report


class _ModelWatch:
    """Stops a run whose model cannot be used at all, instead of calling it for every turn."""

    def __init__(self, token: CancellationToken, *, needs_price: bool) -> None:
        self.problem: Exception | None = None
        self._token = token
        self._needs_price = needs_price
        self._has_answered = False
        self._failures = 0

    def see(self, event: object) -> None:
        if isinstance(event, ModelCalled):
            self._has_answered = True
            if self._needs_price and event.cost is None:
                price = f"the price of the model {event.model!r} is not known"
                self._stop(UsageError(f"--max-cost cannot be enforced: {price}"))
        elif isinstance(event, SampleEnded) and isinstance(event.error, LLMCallError) and not self._has_answered:
            self._failures += 1
            # A turn that the model refuses, such as one that is too long, must not stop the run. A missing key has no
            # HTTP status.
            is_for_all = isinstance(event.error, LLMAuthenticationError) or event.error.status_code in _FOR_ALL_TURNS
            if is_for_all or self._failures == _MOST_FAILURES:
                self._stop(event.error)

    def _stop(self, problem: Exception) -> None:
        self.problem = self.problem or problem
        self._token.cancel()
