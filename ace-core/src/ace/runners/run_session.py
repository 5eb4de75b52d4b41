"""One call of `run`: its contexts, what becomes of each sample, and what is done at its end.

Who calls what, and on which thread:

- The runner makes the `RunSession`, calls `run_epoch` for each epoch, and `finish` once. In `run`, that is the thread
  of the caller. In `arun`, `run_epoch` is awaited on the caller's loop and all else is called on another thread,
  because it may wait for a disk. With `wait=False`, `finish` is called on a thread of the engine.
- The engine draws the contexts (`_drawn`) on one thread or task at a time, each when the run has room for it.
- The engine calls `_foreground_ended` where `on_sample_done` belongs, and `_sample_ended` where the sample ended, on a
  worker, a thread of the background or its loop: while it runs, the sample still holds its lane.
- `cancel` may be called on any thread.

Invariants:

- A sample is in `_in_flight` from the end of its foreground to its own end, and in `_begun` from when it is drawn;
  `wait_for_samples` returns when `_begun` is 0. `_all_ended` protects both.
- The skillbook is refreshed before the context of a sample is built, so that the sample sees what others have learned.
- What became of a sample is noted durably before the next sample enters the lane and before `on_sample_end` is called,
  so a killed run knows of each sample whether it was learned.
- A skipped sample (learned by an earlier call or another run) never reaches the engine; its result takes its place.
- Callbacks of the caller are called one at a time. What they raise is logged and does not end the run.
- Recorded answers are forgotten only after the run has been noted as complete: a resumed run would pay for them again.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

from ace.calls.calling import ON_LOOP, Calling
from ace.calls.model_calls import CallScope, call_scope
from ace.pipeline import CancellationToken, SampleResult, cancel_token_var
from ace.pipeline.in_flight import InPlace
from ace.pipeline.segment import may_block_loop
from ace.protocols.errors import encodable
from ace.protocols.observers import RunStarted, SampleStarted, emit, is_observed, observing
from ace.runners.once import LearnedContents, content_of
from ace.runners.run_limits import RunLimits
from ace.runners.run_record import record_of_run
from ace.runners.sample_ends import SampleEnds
from ace.runners.samples import DrawnSample, SampleInFlight, check_context, trace_identity
from ace.skillbook.errors import SkillbookError, SkillbookStoreError
from ace.skillbook.store import ForgetsAnswers, SampleKey
from ace.steps.tail import end_steps

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import Pipeline
    from ace.runners.failures import FailureLog
    from ace.runners.run_options import OnSample, RunSettings
    from ace.runners.run_record import RunRecord
    from ace.skillbook import Skillbook

__all__ = ["RunSession", "SampleContexts", "SkillbookNotWrittenError", "Tell"]

logger = logging.getLogger(__name__)

Tell = Callable[[Callable[[], None]], None]
"""Makes a call where the caller of a run is."""


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
        workers: How many samples may be in the foreground at once.
        max_in_flight: How many samples may be between their first and their last step; None sets no limit.
        tell: Calls a callback of the caller where the caller is.
        epochs: How often the inputs are gone through.
        total: How many inputs there are; None where that is not known.
        inputs_grow: Whether the inputs are recorded traces, which may be longer the next time.
        inputs: A digest that tells the inputs from others, for `resume="auto"`.

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
        workers: int,
        max_in_flight: int | None,
        tell: Tell,
        epochs: int,
        total: int | None,
        inputs_grow: bool = False,
        inputs: str = "",
    ) -> None:
        self._pipeline = pipeline
        self._skillbook = skillbook
        self._runner = runner
        self._build_context = build_context
        self._options = options
        self._workers = workers
        self._max_in_flight = max_in_flight
        self._tell = tell
        self._epochs = epochs
        self._total = total
        self._open = ExitStack()
        self._record = record_of_run(skillbook, options, runner=runner, epochs=epochs, total=total, inputs=inputs)
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
        self._in_flight: dict[int, SampleInFlight] = {}  # by their places, from their foreground's end to their own
        self._begun = 0  # samples that were drawn and have not ended
        self._all_ended = threading.Condition()
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

    async def run_epoch(
        self, calling: Calling, items: Iterable[Any], epoch: int, extra: Mapping[str, Any]
    ) -> list[SampleResult[ACEStepContext]]:
        """Take all inputs through the foreground once.

        Args:
            calling: Whether the pipeline runs on this thread or on the caller's loop.
            items: The inputs.
            epoch: Which epoch this is, from 1.
            extra: Further arguments of `_build_context`.
        """
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
        drawn: list[SampleInFlight] = []
        arguments: dict[str, Any] = {
            "contexts": self._drawn(items, contexts, drawn, skipped),
            "workers": self._workers,
            "on_sample_done": lambda result: self._foreground_ended(drawn[result.index], result),
            "cancel_token": self._token,
            "on_sample_end": InPlace(self._sample_ended),
            "max_in_flight": self._max_in_flight,
        }
        with call_scope(self._scope()):
            if calling is ON_LOOP:
                done = await self._pipeline.run_async(**arguments)
            else:
                done = self._pipeline.run(**arguments)
        results = iter(done)
        return [skipped.get(place) or next(results) for place in range(len(done) + len(skipped))]

    def leave_to_background(self) -> None:
        """Note that the caller does not wait for the background and for `finish`."""
        if self._record is not None:
            self._record.leave_to_background()

    def cancel(self) -> None:
        """Stop the run: what is inside a step finishes."""
        self._token.cancel("interrupted")

    def wait_for_samples(self, *, is_alone: bool) -> None:
        """Wait until all samples of this run have passed their last step.

        Args:
            is_alone: Whether no other run uses the pipeline. Then everything the engine has to do is waited for.
        """
        with may_block_loop(), self._all_ended:
            self._all_ended.wait_for(lambda: not self._begun)
        if is_alone:
            self._pipeline.wait_for_background()

    def finish(self, *, interrupted: bool = False, is_alone: bool = True) -> None:
        """Wait for the background, and do what is left at the end of a run.

        Args:
            is_alone: Whether no other run uses the pipeline.
            interrupted: Whether the run was interrupted; nothing that calls a model is done then.

        Raises:
            SkillbookNotWrittenError: The skillbook could not be written.
            Exception: What kept a failed sample from being noted, or a step from ending the run.
        """
        try:
            if interrupted:  # a sample may have been lost between the input and its first step
                self._pipeline.wait_for_background()
            else:
                self.wait_for_samples(is_alone=is_alone)
            if self._last_index and self._is_end_due:
                self._end_steps(interrupted=interrupted or bool(self._limits.stopped_by))
            stopped_by = self._limits.stopped_by or ("interrupted" if interrupted else "")
            if self._record is not None and not stopped_by:
                self._record.note_through(has_failures=self._ends.counts["failed"] > 0)
                # Only now: a run that is resumed would pay for them again.
                if self._ends.keeps_ids_only and not self._ends.counts["failed"]:
                    self._forget_answers()
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
        drawn: list[SampleInFlight],
        skipped: dict[int, SampleResult[ACEStepContext]],
    ) -> Iterator[ACEStepContext]:
        """Yield the context of each input that has something left to do, when its turn has come.

        Its sample is then the last of `drawn`, as the engine counts. The results of the others go into `skipped`, by
        their places from 0.
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
                    skipped[index - 1] = self._skipped(contexts.noted(ctx, sample), sample)
                    continue
            self._refresh()
            part = self._learned.new_part(item) if self._learned is not None and self._inputs_grow else None
            ctx = contexts.build(item, index, part)  # now that the book is what the sample shall see
            sample = contexts.sample(ctx, index, self._content_note(item)) if sample is None else sample
            self._is_end_due = True
            ctx = contexts.noted(ctx, sample)
            check_context(ctx, self._pipeline, self._runner, index)
            self._last_index = sample.global_index
            drawn.append(sample)
            with self._all_ended:
                self._begun += 1
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

    def _skipped(self, ctx: ACEStepContext, sample: SampleInFlight) -> SampleResult[ACEStepContext]:
        """Return the result of a sample with which an earlier call of the run has done everything."""
        result: SampleResult[ACEStepContext] = SampleResult(ctx.sample, ctx, None, None, None, sample.place)
        self._last_index = sample.global_index
        self._ends.skipped(sample)
        self._tell_caller("on_sample_done", self._options.on_sample_done, result)
        self._tell_caller("on_sample_end", self._options.on_sample_end, result)
        return result

    def _foreground_ended(self, sample: SampleInFlight, result: SampleResult[ACEStepContext]) -> None:
        """Note which sample a result belongs to: inputs that were skipped do not count for the engine."""
        result.index = sample.place
        with self._all_ended:
            self._in_flight[sample.place] = sample
        self._tell_caller("on_sample_done", self._options.on_sample_done, result)

    def _sample_ended(self, result: SampleResult[ACEStepContext]) -> None:
        """Note what became of a sample. The engine holds the sample's lane until this returns."""
        with self._all_ended:
            sample = self._in_flight.pop(result.index)
        try:
            self._ends.ended(sample, result)
            self._tell_caller("on_sample_end", self._options.on_sample_end, result)
        finally:
            with self._all_ended:
                self._begun -= 1
                self._all_ended.notify_all()

    def _tell_caller(self, name: str, callback: OnSample | None, result: SampleResult[ACEStepContext]) -> None:
        if callback is not None:
            self._tell(partial(self._call, name, callback, result))

    def _call(self, name: str, callback: OnSample, result: SampleResult[ACEStepContext]) -> None:
        with self._telling:
            try:
                callback(result)
            except Exception:
                logger.exception("%s raised for sample %.80r; the run continues", name, result.sample)

    def _forget_answers(self) -> None:
        store: object = self._skillbook.store  # mypy takes no object for both protocols
        if isinstance(store, ForgetsAnswers):
            store.forget_answers(self._id)
        else:
            logger.warning(
                "The store of the skillbook cannot delete what models answered in the run %s, so their answers stay in "
                "it, although the run was to keep only ids",
                self._id,
            )

    def _scope(self) -> CallScope:
        """Return what the model calls of this run are for."""
        return CallScope(run_id=self._id, store=self._skillbook.store, allow=self._ends.allow)

    def _end_steps(self, *, interrupted: bool) -> None:
        """Let the steps do what they have left; what they ask a model is recorded like all else."""
        learned = self._ends.counts["learned"] + self._ends.counts["already_learned"]
        with call_scope(replace(self._scope(), epoch=self._epochs, sample=f"end after {learned}")):
            stopping = cancel_token_var.set(self._token)
            try:
                steps = self._pipeline.steps
                end_steps(steps, self._last_index, interrupted=interrupted, on_problem=self._ends.problem)
            finally:
                cancel_token_var.reset(stopping)


@final
class SampleContexts:
    """Makes the contexts of one epoch.

    Args:
        run_id: The name of the run.
        runner: What kind of runner it is.
        record: What the store keeps about the run, if there is one.
        build_context: Makes the context of an input.
        epoch: From 1.
        epochs: How many there are.
        total: How many inputs there are; None where that is not known.
        extra: Further arguments of `build_context`.
    """

    def __init__(
        self,
        run_id: str,
        runner: str,
        record: RunRecord | None,
        build_context: Callable[..., ACEStepContext],
        *,
        epoch: int,
        epochs: int,
        total: int | None,
        extra: Mapping[str, Any],
    ) -> None:
        self._run_id = run_id
        self._runner = runner
        self._record = record
        self._build_context = build_context
        self._epoch = epoch
        self._epochs = epochs
        self._total = total
        self._extra = extra
        self._times_seen: Counter[str] = Counter()

    def build(self, item: object, index: int, part: object = None) -> ACEStepContext:
        """Return the context of an input as the runner makes it, with the name of the trace.

        Args:
            item: The input.
            index: Its place in the epoch, from 1.
            part: What is new of the input; None if all of it is.
        """
        ctx = self._build_context(
            item if part is None else part,
            epoch=self._epoch,
            total_epochs=self._epochs,
            index=index,
            total=self._total,
            global_sample_index=(self._epoch - 1) * (self._total or 0) + index,
            **self._extra,
        )
        added = {
            "trace_id": encodable(str(ctx.metadata.get("trace_id") or trace_identity(item, index))),
            "integration": ctx.metadata.get("integration", self._runner),
        }
        return ctx.replace(metadata={**ctx.metadata, **added})

    def sample(self, ctx: ACEStepContext, index: int, content: Mapping[str, object]) -> SampleInFlight:
        """Return which sample of the run a context is. Ask once for each input, in order.

        Args:
            ctx: The context.
            index: Its place in the epoch, from 1.
            content: What is noted of the content of the input.
        """
        trace_id: str = ctx.metadata["trace_id"]
        self._times_seen[trace_id] += 1
        times = self._times_seen[trace_id]
        key = SampleKey(self._run_id, self._epoch, trace_id if times == 1 else f"{trace_id} ({times})")
        record = self._record
        return SampleInFlight(
            drawn=DrawnSample(ctx.sample, trace_id, self._epoch, index),
            key=key,
            global_index=ctx.global_sample_index,
            attempt=0 if record is None else record.attempt(key),
            attempts={} if record is None else record.attempts(key),
            already_learned=record is not None and (record.is_committed(key) or record.is_over(key)),
            started=time.monotonic(),
            content=content,
        )

    def noted(self, ctx: ACEStepContext, sample: SampleInFlight) -> ACEStepContext:
        """Return the context with what steps have to know of the sample.

        Args:
            ctx: The context.
            sample: Which sample of the run it is.
        """
        added = {
            "sample_key": sample.key,
            "attempt": sample.attempt,
            "attempts": sample.attempts,
            "already_learned": sample.already_learned,
            "content": sample.content,
        }
        return ctx.replace(metadata={**ctx.metadata, **added})


class SkillbookNotWrittenError(SkillbookError):
    """The skillbook of a run could not be written, so the run was stopped: more would be paid for, and lost.

    Attributes:
        reason: What happened.
        run_id: The name of the run.
        learned: How many samples this call of the run has learned.
        is_resumable: Whether what they taught is in a store, and the run can be resumed. If not, it is in memory.

    Example:
        >>> print(SkillbookNotWrittenError("the disk is full", run_id="r", learned=3, is_resumable=False))
        the run was stopped, since its skillbook cannot be written: the disk is full. What was learned is in memory; \
save it to another path with save(path)
    """

    def __init__(self, reason: str, *, run_id: str, learned: int, is_resumable: bool) -> None:
        self.reason = reason
        self.run_id = run_id
        self.learned = learned
        self.is_resumable = is_resumable
        if is_resumable:
            samples = "1 sample" if learned == 1 else f"{learned} samples"
            remedy = (
                f"What {samples} taught is kept; when the problem is fixed, "
                f"resume with run(..., run_id={run_id!r}, resume=True)"
            )
        else:
            remedy = "What was learned is in memory; save it to another path with save(path)"
        super().__init__(f"the run was stopped, since its skillbook cannot be written: {reason}. {remedy}")
