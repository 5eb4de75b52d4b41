"""A learning run for a tool: its changes, its failures, and why it was stopped."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from ace import LLMCallError, LLMError, PipelineCancelled, redact
from ace.environments import SimpleEnvironment
from ace.integrations import SkillsChanged, observing
from ace.logs import traces_in
from ace.skillbook import SkillbookStoreError
from ace_mcp.errors import ErrorCode, MCPToolError
from ace_mcp.models import LearnedSkill, SampleFailure

if TYPE_CHECKING:
    from ace import ACESample, ACEStepContext, SampleResult
    from ace_mcp.sessions import Session
    from ace_mcp.stopping import Stop

__all__ = ["LearningRun", "Progress"]

Progress = Callable[[int, int], None]
"""Called with the number of finished samples and the total, on any thread."""

_LONGEST_FAILURE = 500
_BUDGET_SPENT = "max_cost"
"""The reason with which the run stops itself."""
_ENVIRONMENT = SimpleEnvironment()


@final
class LearningRun:
    """Learns with a session, and collects the results that a tool reports.

    Args:
        stop: Stops the run.
        progress: Called after each sample.
        max_cost: The maximum cost of the run in US dollars; None for no limit.
    """

    def __init__(self, session: Session, stop: Stop, progress: Progress, max_cost: float | None) -> None:
        self._session = session
        self._stop = stop
        self._progress = progress
        self._max_cost = max_cost
        self._run_id = uuid.uuid4().hex
        self._count_before = len(session.learner.skillbook)
        self._added: list[str] = []
        self._changed: list[str] = []
        self._has_changed = False
        self._size = 0
        self._total = 0
        self._ended = 0
        self._results: list[SampleResult[ACEStepContext]] = []

    def learn_samples(self, samples: Sequence[ACESample], epochs: int) -> None:
        """Answer samples and learn from them.

        Args:
            epochs: The number of passes over the samples.

        Raises:
            MCPToolError: The run was stopped, or the model cannot be used. What was learned is kept.
        """
        learner = self._session.learner
        self._run(lambda **options: learner.learn(samples, _ENVIRONMENT, epochs, **options), len(samples), epochs)

    def learn_trace(self, trace: object) -> None:
        """Learn from a trace, which may hold several runs.

        Raises:
            MCPToolError: The run was stopped, or the model cannot be used. What was learned is kept.
        """
        runs = traces_in(trace)
        self._run(lambda **options: self._session.learner.learn_from_traces(runs, **options), len(runs), 1)

    @property
    def has_changed(self) -> bool:
        """Whether the run has changed the skillbook."""
        return self._has_changed

    @property
    def processed(self) -> int:
        """The number of samples learned from, over all epochs."""
        return sum(result.error is None for result in self._results)

    @property
    def failures(self) -> list[SampleFailure]:
        """The samples that failed, and those for which the budget did not suffice."""
        return [
            SampleFailure(index=place % self._size, what=self._text(result.error))
            for place, result in enumerate(self._results)
            if result.error is not None
            and (not isinstance(result.error, PipelineCancelled) or self._stop.reason == _BUDGET_SPENT)
        ]

    @property
    def counts(self) -> dict[str, Any]:
        """The fields of `LearnOutput`."""
        book = self._session.learner.skillbook
        touched = dict.fromkeys([*self._added, *self._changed])
        # The client shows the result to its model, which must not see what is pending.
        skills = [skill for id in touched if (skill := book.get_skill(id)) is not None and not skill.is_pending]
        return {
            "session_id": self._session.id,
            "skill_count_before": self._count_before,
            "skill_count_after": len(book),
            "new_skill_count": len(self._added) - self._pending,
            "pending_count": self._pending,
            "skills": [LearnedSkill(id=skill.id, content=skill.content) for skill in skills],
        }

    @property
    def _pending(self) -> int:
        added = [self._session.learner.skillbook.get_skill(id) for id in self._added]
        return sum(skill is not None and skill.is_pending for skill in added)

    def _run(self, learn: Callable[..., list[SampleResult[ACEStepContext]]], size: int, epochs: int) -> None:
        self._size, self._total = size, size * epochs
        with observing(self._note_change):
            self._results = learn(
                run_id=self._run_id,
                cancel_token=self._stop.token,
                on_sample_end=self._note_end,
                max_cost=self._max_cost,
            )
        self._raise_if_stopped()

    def _note_change(self, event: object) -> None:
        if not isinstance(event, SkillsChanged) or event.run_id != self._run_id:
            return
        for change in event.applied:
            self._has_changed = True
            if change.kind == "ADD":
                self._added.append(change.skill_id)
            elif change.kind in ("UPDATE", "MERGE"):
                self._changed.append(change.skill_id)

    def _note_end(self, result: SampleResult[ACEStepContext]) -> None:
        self._ended += 1
        self._progress(self._ended, self._total)

    def _raise_if_stopped(self) -> None:
        kept: dict[str, Any] = {
            "processed": self.processed,
            "failed": len(self.failures),
            "new_skill_count": len(self._added) - self._pending,
            "failures": [failure.model_dump() for failure in self.failures],
        }
        learned = f"{self.processed} of {self._total} samples were learned from, and their skills are kept"
        reason = self._stop.reason
        if reason == "timeout":
            raise MCPToolError(
                ErrorCode.TIMEOUT, f"learning took too long and was stopped; {learned}; send fewer samples", **kept
            )
        if reason in ("cancelled", "shutdown"):
            raise MCPToolError(ErrorCode.TIMEOUT, f"learning was stopped ({reason}); {learned}", **kept)
        if reason == _BUDGET_SPENT and not self.processed:
            raise MCPToolError(
                ErrorCode.PROVIDER_ERROR,
                "the model calls have cost as much as is allowed, and nothing was learned; start the server with a "
                "higher --max-cost",
                **kept,
            )
        errors = [result.error for result in self._results if result.error is not None]
        if not errors or self.processed:
            return
        if own := next((error for error in map(_own_error, errors) if error is not None), None):
            raise own
        if reason == "skillbook_not_written" or all(isinstance(error, SkillbookStoreError) for error in errors):
            raise MCPToolError(
                ErrorCode.INTERNAL_ERROR,
                f"the skillbook cannot be written, so nothing was learned: {self._text(errors[0])}",
                **kept,
            )
        if all(isinstance(error, LLMError | PipelineCancelled) for error in errors):
            failed = next((error for error in errors if isinstance(error, LLMError)), None)
            if failed is not None:
                raise MCPToolError(ErrorCode.PROVIDER_ERROR, f"nothing was learned: {self._text(failed)}", **kept)

    def _text(self, error: BaseException | None) -> str:
        if isinstance(error, PipelineCancelled):
            return "the model calls have cost as much as is allowed (--max-cost)"
        said = self._session.explain(error) if isinstance(error, LLMCallError) else str(error)
        return redact(said or type(error).__name__)[:_LONGEST_FAILURE]


def _own_error(error: BaseException | None) -> MCPToolError | None:
    """Return the `MCPToolError` with which a sample failed, which the engine may have wrapped."""
    while error is not None and not isinstance(error, MCPToolError):
        error = error.__cause__
    return error
