"""One call of `run`: its contexts, what becomes of each sample, and what is done at its end."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from ace.pipeline import CancellationToken, SampleResult
from ace.protocols.model_calls import CallScope, call_scope
from ace.protocols.observers import RunStarted, SampleStarted, emit, is_observed, observing
from ace.runners.inputs import check_context
from ace.runners.learning_lag import LearningLag
from ace.runners.not_written import SkillbookNotWrittenError
from ace.runners.once import LearnedContents, content_of
from ace.runners.run_limits import RunLimits
from ace.runners.run_record import record_of_run
from ace.runners.sample_contexts import SampleContexts
from ace.runners.sample_ends import SampleEnds
from ace.runners.underway import SamplesUnderway, SampleUnderway
from ace.skillbook.errors import SkillbookStoreError
from ace.steps.end_of_run import end_steps

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import Pipeline
    from ace.runners.failures import FailureLog
    from ace.runners.run_options import RunSettings
    from ace.skillbook import Skillbook

__all__ = ["RunSession"]

logger = logging.getLogger(__name__)


@final
class RunSession:
    """What a run keeps from its beginning to the end of its background.

    From here to `finish`, changes of a book in a store are committed sample by sample: the tags, operations and
    progress of one sample are one transaction.

    Args:
        pipeline: The pipeline of the run.
        skillbook: The book that it writes.
        failure_log: What takes failed samples.
        runner: What kind of runner it is; the name for `InsightSource.integration`.
        build_context: Makes the context of an input.
        options: What the run was told.
        most_under_way: How many earlier samples may be unlearned when one starts; None leaves it to the engine.
        epochs: How often the inputs are gone through.
        total: How many inputs there are; None where that is not known.
        inputs_grow: Whether the inputs are recorded traces, which may be longer the next time.

    Raises:
        ValueError: The run cannot be resumed, or cannot be begun under this name.
    """

    def __init__(
        self,
        pipeline: Pipeline[ACEStepContext],
        skillbook: Skillbook,
        failure_log: FailureLog,
        *,
        runner: str,
        build_context: Callable[..., ACEStepContext],
        options: RunSettings,
        most_under_way: int | None,
        epochs: int,
        total: int | None,
        inputs_grow: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._skillbook = skillbook
        self._runner = runner
        self._build_context = build_context
        self._options = options
        self._most_under_way = most_under_way
        self._epochs = epochs
        self._total = total
        self._open = ExitStack()
        self._record = record_of_run(skillbook, options, runner=runner, epochs=epochs, total=total)
        self._id = options.run_id or uuid.uuid4().hex if self._record is None else self._record.run_id
        self._token = CancellationToken() if options.cancel_token is None else options.cancel_token
        if self._record is not None:
            self._open.callback(self._record.release)
        self._inputs_grow = inputs_grow
        self._learned: LearnedContents | None = None
        self._limits = RunLimits(
            self._id, self._token, options.max_cost, options.fail_fast, options.max_consecutive_failures
        )
        self._ends = SampleEnds(self._id, runner, pipeline, skillbook, self._record, failure_log, self._limits)
        self._underway = SamplesUnderway()
        self._last_index = 0
        # An earlier call that was killed may have left the end of the run undone.
        self._is_end_due = self._record is not None and self._record.is_resumed and not self._record.was_through
        self._telling = threading.Lock()
        self._started = time.monotonic()
        if options.max_cost is not None:
            self._open.enter_context(observing(self._limits.observe))
        self._open.enter_context(skillbook.deferred_commits())
        resumed = self._record is not None and self._record.is_resumed
        emit(RunStarted(self._id, runner, epochs, total, resumed))

    def run_epoch(
        self, items: Iterable[Any], epoch: int, extra: Mapping[str, Any]
    ) -> list[SampleResult[ACEStepContext]]:
        """Take all inputs through the foreground once.

        Args:
            items: The inputs.
            epoch: Which epoch this is, from 1.
            extra: Further arguments of `_build_context`.
        """
        lag = LearningLag(self._pipeline, self._most_under_way, self._token)
        skipped: dict[int, SampleResult[ACEStepContext]] = {}
        contexts = SampleContexts(
            self._id,
            self._runner,
            self._record,
            self._build_context,
            epoch=epoch,
            epochs=self._epochs,
            total=self._total,
            extra=extra,
        )
        if self._options.once and self._record is not None and self._learned is None:
            # In several epochs, the samples of this run are looked after by its record alone.
            self._learned = LearnedContents(self._record.store, self._id if self._epochs > 1 else "")
        drawn = self._drawn(items, contexts, lag, skipped)
        with call_scope(self._scope()):
            done = self._pipeline.run(
                drawn,
                self._options.workers,
                lambda result: self._foreground_ended(result, lag),
                self._token,
                on_sample_end=self._left_background,
            )
        results = iter(done)
        return [skipped.get(place) or next(results) for place in range(len(done) + len(skipped))]

    def leave_to_background(self) -> None:
        """Note that the caller does not wait for the background and for `finish`."""
        if self._record is not None:
            self._record.leave_to_background()

    def finish(self, *, interrupted: bool = False) -> None:
        """Wait for the background, and do what is left at the end of a run.

        Args:
            interrupted: Whether the run was broken off; nothing that calls a model is done then.

        Raises:
            SkillbookNotWrittenError: The skillbook could not be written.
            Exception: What kept a failed sample from being noted, or a step from ending the run.
        """
        try:
            self._pipeline.wait_for_background()
            if self._last_index and self._is_end_due:
                self._end_steps(interrupted=interrupted or bool(self._limits.stopped_by))
            stopped_by = self._limits.stopped_by or ("interrupted" if interrupted else "")
            if self._record is not None and not stopped_by:
                self._record.note_through(has_failures=self._ends.counts["failed"] > 0)
            self._ends.tell_run_ended(time.monotonic() - self._started, stopped_by)
        finally:
            self._open.close()
        if self._limits.write_error is not None:
            raise SkillbookNotWrittenError(
                str(self._limits.write_error),
                run_id=self._id,
                learned=self._ends.counts["learned"],
                is_resumable=self._record is not None,
            ) from self._limits.write_error
        if self._ends.problems:
            raise self._ends.problems[0]

    def _drawn(
        self,
        items: Iterable[object],
        contexts: SampleContexts,
        lag: LearningLag,
        skipped: dict[int, SampleResult[ACEStepContext]],
    ) -> Iterator[ACEStepContext]:
        """Yield the context of each input that has something left to do, when its turn has come.

        The results of the others go into `skipped`, by their places from 0.
        """
        resumed = self._record is not None and self._record.is_resumed
        for index, item in enumerate(items, 1):
            sample = None
            is_known = self._learned is not None and self._learned.knows(item)
            if resumed or is_known:
                ctx = contexts.build(item, index)
                sample = contexts.sample(ctx, index, self._content_note(item))
                if self._ends.is_over(sample) or (is_known and not sample.already_learned):
                    sample = replace(sample, already_learned=True)
                    skipped[index - 1] = self._passed_over(contexts.noted(ctx, sample), sample)
                    continue
            lag.begin()
            self._refresh()
            part = self._learned.new_part(item) if self._learned is not None and self._inputs_grow else None
            ctx = contexts.build(item, index, part)  # now that the book is what the sample shall see
            sample = contexts.sample(ctx, index, self._content_note(item)) if sample is None else sample
            self._is_end_due = True
            ctx = contexts.noted(ctx, sample)
            check_context(ctx, self._pipeline, self._runner, index)
            self._last_index = sample.global_index
            self._underway.draw(sample)
            if is_observed():
                emit(SampleStarted(self._id, sample.drawn.trace_id, sample.drawn.epoch, index))
            yield ctx

    def _content_note(self, item: object) -> dict[str, object]:
        """Return what a store notes of the content of an input; nothing without a store."""
        if self._record is None:
            return {}
        try:
            return content_of(item, can_grow=self._inputs_grow).note
        except (OSError, ValueError) as error:  # the first step that reads the input raises it as its error
            logger.debug("The content of an input cannot be noted: %s", error)
            return {}

    def _refresh(self) -> None:
        """Take over what others have learned into the book."""
        try:
            self._skillbook.refresh()
        except SkillbookStoreError as error:
            self._limits.not_written(error)
            raise

    def _passed_over(self, ctx: ACEStepContext, sample: SampleUnderway) -> SampleResult[ACEStepContext]:
        """Return the result of a sample with which an earlier call of the run has done everything."""
        result: SampleResult[ACEStepContext] = SampleResult(ctx.sample, ctx, None, None)
        self._last_index = sample.global_index
        self._ends.passed_over(sample)
        try:
            self._tell_caller(result)
        except Exception:
            logger.exception("on_sample_done raised for sample %.80r; the run goes on", result.sample)
        return result

    def _foreground_ended(self, result: SampleResult[ACEStepContext], lag: LearningLag) -> None:
        goes_on = result.error is None and self._pipeline.has_async_boundary
        sample = self._underway.leave_front(result, goes_on=goes_on)
        lag.foreground_ended(failed=result.error is not None)
        if not goes_on:
            self._ends.ended(sample, result)
        self._tell_caller(result)

    def _tell_caller(self, result: SampleResult[ACEStepContext]) -> None:
        if self._options.on_sample_done is not None:
            with self._telling:
                self._options.on_sample_done(result)

    def _left_background(self, result: SampleResult[ACEStepContext]) -> None:
        sample = self._underway.leave(result)
        if sample is not None:
            self._ends.ended(sample, result)

    def _scope(self) -> CallScope:
        """Return what the model calls of this run are for."""
        return CallScope(run_id=self._id, store=self._skillbook.store, allow=self._ends.allow)

    def _end_steps(self, *, interrupted: bool) -> None:
        """Let the steps do what they have left; what they ask a model is recorded like all else."""
        learned = self._ends.counts["learned"] + self._ends.counts["already_learned"]
        with call_scope(replace(self._scope(), epoch=self._epochs, sample=f"end after {learned}")):
            end_steps(self._pipeline.steps, self._last_index, interrupted=interrupted, on_problem=self._ends.problem)
