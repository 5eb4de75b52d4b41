"""Records durably, and reports, the outcome of each sample of a run; and reports each of its steps."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, final

from ace.calls.model_calls import current_call_scope
from ace.calls.secrets import known_secrets
from ace.pipeline import PipelineCancelled
from ace.protocols.errors import LLMCallError, UnusableAnswerError
from ace.protocols.observers import RunEnded, SampleEnded, StepEnded, StepStarted, emit, is_observed
from ace.redaction import Redactor
from ace.runners.failures import first_cause
from ace.skillbook.errors import SkillbookStoreError
from ace.steps.agent import AgentStep
from ace.steps.apply import ApplyStep, learned_content, used_skills
from ace.steps.deduplicate import DeduplicateStep
from ace.steps.reflect import ReflectStep
from ace.steps.tag import tags_key
from ace.steps.update import UpdateStep

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import Pipeline, SampleResult, StepContext
    from ace.runners.failures import FailureLog
    from ace.runners.run_options import RunLimits
    from ace.runners.run_record import RunRecord
    from ace.runners.samples import SampleInFlight
    from ace.skillbook import Skillbook

__all__ = ["SampleEnds", "StepEvents", "keeps_ids_only"]

logger = logging.getLogger(__name__)

_ROLES = {
    AgentStep.__name__: "Agent",
    ReflectStep.__name__: "Reflector",
    "RRStep": "Reflector",  # not imported: it needs pydantic
    UpdateStep.__name__: "SkillManager",
    DeduplicateStep.__name__: "Deduplication",
}
"""The role that each step asks."""


@final
class SampleEnds:
    """Records the outcome of each sample at once, so that a kill loses none.

    Args:
        run_id: The name of the run.
        runner: The kind of runner.
        pipeline: The pipeline of the run.
        skillbook: The book that it changes.
        record: The record of the run; None without a store.
        failure_log: Keeps failed samples.
        limits: Counts failed samples.
    """

    def __init__(
        self,
        run_id: str,
        runner: str,
        pipeline: Pipeline[ACEStepContext],
        skillbook: Skillbook,
        record: RunRecord | None,
        failure_log: FailureLog,
        limits: RunLimits,
    ) -> None:
        self._run_id = run_id
        self._runner = runner
        self._skillbook = skillbook
        self._record = record
        self._failure_log = failure_log
        self._limits = limits
        self._clients = [client for step in pipeline.steps for client in _clients_of(step)]
        self.allow = _allowed_in(pipeline)
        """The classes of sensitive text that the run neither redacts nor keeps out of the skillbook."""
        self._keeps_ids_only = keeps_ids_only(pipeline)
        self._lane_steps = {type(step).__name__ for step in pipeline.steps if getattr(step, "lane", None) is not None}
        # If so, a committed sample has ended, which needs no note of its own.
        self._commit_is_last = bool(pipeline.steps) and isinstance(pipeline.steps[-1], ApplyStep)
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        """How many samples were learned, already_learned, failed, cancelled."""
        self.problems: list[Exception] = []
        """The errors in recording outcomes and in ending the run."""

    def is_over(self, sample: SampleInFlight) -> bool:
        """Whether an earlier call of the run has processed a sample completely."""
        if self._record is None:
            return False
        return self._record.is_over(sample.key) or (self._commit_is_last and self._record.is_committed(sample.key))

    def skipped(self, sample: SampleInFlight) -> None:
        """Count a sample that an earlier call of the run, or another run, has learned."""
        self._count("already_learned")
        if self._record is not None and self._record.has_failed(sample.key):  # another run has learned it since
            self._record.note_over(sample, {})
        self._tell(sample, None, None, 0.0)

    def ended(self, sample: SampleInFlight, result: SampleResult[ACEStepContext]) -> None:
        """Record the outcome of a sample that has ended, in the foreground or the background.

        Args:
            sample: The sample.
            result: Its result.
        """
        try:
            self._note(sample, result)
        except Exception as error:  # the run continues, and raises this at its end
            logger.error("The outcome of sample %s could not be recorded: %s", sample.drawn.trace_id, error)
            self.problem(error)
        self._tell(sample, result.error, result.failed_at, time.monotonic() - sample.started)

    def tell_run_ended(self, seconds: float, stopped_by: str) -> None:
        """Emit that the run has ended, with the counts of its samples.

        Args:
            seconds: How long it took.
            stopped_by: What stopped it; empty if nothing did.
        """
        if not is_observed():
            return
        counts = self.counts
        emit(
            RunEnded(
                self._run_id,
                counts["learned"],
                counts["already_learned"],
                counts["failed"],
                counts["cancelled"],
                seconds,
                stopped_by,
            )
        )

    def problem(self, error: Exception) -> None:
        """Keep an error to be raised at the end of the run. The run stops if the skillbook could not be written."""
        with self._lock:
            self.problems.append(error)
        if isinstance(error, SkillbookStoreError):
            self._limits.not_written(error)

    def _note(self, sample: SampleInFlight, result: SampleResult[ACEStepContext]) -> None:
        if result.error is None:
            self._count("already_learned" if sample.already_learned else "learned")
            if not sample.already_learned:  # else no model was asked
                self._limits.model_reached()
            if self._record is not None and not self._commit_is_last:
                output = result.output
                outcome = {} if output is None else {**used_skills(output), **learned_content(output)}
                self._record.note_over(sample, outcome)
            return
        self._keep_changes(sample, result)
        if isinstance(result.error, PipelineCancelled):
            self._count("cancelled")
            return
        self._count("failed")
        self._limits.sample_failed(result.error)
        not_written = first_cause(result.error, SkillbookStoreError)
        if not_written is not None:
            self._limits.not_written(not_written)
        problem = ""
        try:
            redactor = Redactor(known_secrets(*self._clients), allow=self.allow)
            failed = self._failure_log.add(sample.drawn, result, result.error, redactor, ids_only=self._keeps_ids_only)
            problem = failed.problem
        finally:
            # If only the write failed, the sample did not, and its recorded answers stay valid.
            if self._record is not None and not_written is None:
                self._record.note_failed(sample, _role_to_retry(result.error, result.failed_at), problem)

    def _keep_changes(self, sample: SampleInFlight, result: SampleResult[ACEStepContext]) -> None:
        """Commit what a sample changed in the book before it failed. The sample holds its lane until this returns."""
        if result.failed_at not in self._lane_steps or not self._skillbook.has_uncommitted_changes:
            return
        store = self._skillbook.store
        is_committed = store is not None and store.committed_version(sample.key) is not None
        self._skillbook.commit(author=self._runner, key=None if is_committed else tags_key(sample.key))

    def _count(self, outcome: str) -> None:
        with self._lock:
            self.counts[outcome] += 1

    def _tell(self, sample: SampleInFlight, error: BaseException | None, failed_at: str | None, seconds: float) -> None:
        if is_observed():
            drawn = sample.drawn
            emit(
                SampleEnded(
                    self._run_id,
                    drawn.trace_id,
                    drawn.epoch,
                    drawn.index,
                    error,
                    failed_at,
                    seconds,
                    sample.already_learned,
                )
            )


def keeps_ids_only(pipeline: Pipeline[ACEStepContext]) -> bool:
    """Return whether a run of a pipeline keeps no text of its inputs.

    Args:
        pipeline: The pipeline.
    """
    return any(isinstance(step, UpdateStep) and step.provenance == "ids" for step in pipeline.steps)


def _role_to_retry(error: BaseException, failed_at: str | None) -> str:
    """Return the role whose recorded answers made a sample fail; empty if the answers are still valid.

    They are if the model could not be reached, the process was interrupted, or a step failed that asks no model.
    """
    if first_cause(error, LLMCallError) is not None or not isinstance(error, Exception):
        return ""
    unusable = first_cause(error, UnusableAnswerError)
    if unusable is not None and unusable.role:
        return unusable.role
    return _ROLES.get(failed_at or "", "")


def _allowed_in(pipeline: Pipeline[ACEStepContext]) -> frozenset[str]:
    """Return what the guards of the steps that write the skillbook allow."""
    guards = [step.guard for step in pipeline.steps if isinstance(step, ApplyStep)]
    return frozenset(kind for guard in guards for kind in guard.allow)


def _clients_of(step: object) -> list[object]:
    """Return the clients of the roles that a step has."""
    roles = [step, *getattr(step, "__dict__", {}).values()]  # some steps, such as `RRStep`, are roles themselves
    found = (getattr(role, name, None) for role in roles for name in ("llm", "subagent_llm"))
    return [client for client in found if client is not None]


@final
class StepEvents:
    """A step observer of the engine that emits events, if there is an observer of events."""

    def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
        """Emit that a step begins. The arguments are those of `ace.pipeline.StepObserver`."""
        if is_observed():
            run_id = current_call_scope().run_id
            emit(StepStarted(run_id, _trace_id(ctx), step_name, *_position(ctx), background))

    def step_ended(
        self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
    ) -> None:
        """Emit that a step has ended. The arguments are those of `ace.pipeline.StepObserver`."""
        if is_observed():
            run_id = current_call_scope().run_id
            emit(StepEnded(run_id, _trace_id(ctx), step_name, seconds, error, *_position(ctx), background))


def _trace_id(ctx: StepContext) -> str:
    return str(ctx.metadata.get("trace_id", ""))


def _position(ctx: StepContext) -> tuple[int, int]:
    """Return the epoch of a sample and its position there; zeros for a context of another class."""
    return getattr(ctx, "epoch", 0), getattr(ctx, "step_index", 0)
