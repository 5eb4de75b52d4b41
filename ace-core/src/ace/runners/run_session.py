"""One call of `run`: its contexts, the outcome of each sample, and what is done at its end.

Who calls what, and on which thread:

- The runner creates the `RunSession`, calls `run_epoch` for each epoch, and `finish` once; or `abandon`, if its task is
  cancelled before the first epoch. In `run`, all of that is done on the caller's thread. In `arun`, `run_epoch` is
  awaited on the caller's loop, and everything else is called on another thread, because it may wait for a disk. With
  `wait=False`, `finish` is called on a thread of the engine.
- The engine draws the contexts (`_drawn`) on one thread or task at a time, each when one more may be in flight.
- The engine calls `_foreground_ended` where `on_sample_done` is called. It calls `_sample_ended` where the sample
  ended: on a worker, or on a thread or the loop of the background. The sample holds its lane until that returns.
- `cancel` may be called on any thread.

Invariants:

- `_begun` counts the samples that have been drawn and have not ended; `wait_for_samples` returns when it is 0. A sample
  is in `_in_flight` from the end of its foreground to its own end. `_ends_of_samples` protects both, and
  Ctrl-C cannot interrupt a thread that holds its lock.
- The skillbook is refreshed before the context of a sample is built, so that the sample sees what others have learned.
- The outcome of a sample is recorded durably before the next sample enters the lane and before `on_sample_end` is
  called, so after a kill it is known for each sample whether it was learned.
- A skipped sample (learned by an earlier call or another run) never reaches the engine; its result is added afterwards.
- A reflection is among the recent ones before the next sample enters the lane, and its text is recorded before its
  sample is committed, so a resumed run has the same ones.
- Callbacks of the caller are called one at a time. Errors that they raise are logged and do not end the run.
- Recorded answers that are not to be kept are deleted before the run is noted as complete. If the process is killed in
  between, the run can be resumed, which deletes them; after the note, nothing would.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from ace.calls.calling import ON_LOOP, Calling
from ace.calls.model_calls import CallScope, call_scope, current_call_scope
from ace.calls.secrets import known_secrets
from ace.pipeline import CancellationToken, PipelineCancelled, SampleResult, cancel_token_var
from ace.pipeline.in_flight import InPlace
from ace.pipeline.segment import may_block_loop
from ace.pipeline.threads import Changes, uninterrupted
from ace.protocols.errors import LLMCallError, UnusableAnswerError, encodable
from ace.protocols.observers import (
    RunEnded,
    RunStarted,
    SampleEnded,
    SampleStarted,
    StepEnded,
    StepStarted,
    emit,
    is_observed,
    observing,
)
from ace.redaction import Redactor
from ace.runners.failures import first_cause
from ace.runners.run_record import ContentClaims, LearnedContents, forget_answers, record_of_run
from ace.runners.samples import (
    DrawnSample,
    SampleInFlight,
    check_context,
    claimed_contents,
    content_of,
    trace_identity,
)
from ace.runners.spend import RunLimits, RunSpend, RunSpendCounter
from ace.skillbook.errors import SkillbookError, SkillbookStoreError
from ace.skillbook.store import SampleKey
from ace.steps.agent import AgentStep
from ace.steps.apply import ApplyStep, learned_content, used_skills
from ace.steps.deduplicate import DeduplicateStep
from ace.steps.recent_reflections import RecentReflections
from ace.steps.reflect import ReflectStep
from ace.steps.tag import tags_key
from ace.steps.tail import EndOfEpoch, EndOfRun
from ace.steps.update import UpdateStep

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import Pipeline, SampleResult, StepContext
    from ace.runners.failures import FailureLog
    from ace.runners.run_options import OnSample, RunSettings
    from ace.runners.run_record import RunRecord
    from ace.runners.samples import SampleInFlight
    from ace.skillbook import BookMark, Skillbook

__all__ = [
    "RunSession",
    "SampleContexts",
    "SampleEnds",
    "SkillbookNotWrittenError",
    "StepEvents",
    "Tell",
    "keeps_ids_only",
]

logger = logging.getLogger(__name__)

NOTHING_ACCEPTED: Final = "nothing_accepted"
"""Why a run with `stop_idle` has ended."""

Tell = Callable[[Callable[[], None]], None]
"""A function that makes a call on the thread or loop of the caller of a run."""


@final
class RunSession:
    """The state of a run, from its beginning to the end of its background.

    From its construction to `finish`, changes of a book in a store are committed sample by sample: the tags, operations
    and progress of one sample are one transaction.

    Args:
        pipeline: The pipeline of the run.
        skillbook: The book that the pipeline changes.
        failure_log: Keeps failed samples.
        runner: The kind of runner; also the name for `InsightSource.integration`.
        build_context: Makes the context of an input.
        options: The options of the run.
        workers: How many samples may be in the foreground at once.
        max_in_flight: How many samples may be between their first and their last step; None sets no limit.
        tell: Calls a callback on the thread or loop of the caller.
        caller: The identifier of the caller's thread.
        epochs: The number of passes over the inputs.
        total: The number of inputs; None if it is not known.
        inputs_grow: Whether the inputs are recorded traces, which may be longer the next time.
        inputs: A digest that identifies the inputs, for `resume="auto"`.

    Raises:
        ValueError: The run cannot be resumed, or cannot be started under this name.
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
        caller: int,
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
        forgets = options.forget_answers or keeps_ids_only(pipeline)
        self._record = record_of_run(
            skillbook, options, runner=runner, epochs=epochs, total=total, inputs=inputs, forgets=forgets
        )
        self._id = options.run_id or uuid.uuid4().hex if self._record is None else self._record.run_id
        self._token = CancellationToken() if options.cancel_token is None else options.cancel_token
        if self._record is not None:
            self._record.set_caller(caller)  # with `arun`, this thread will begin other runs
            # First in, last out: no other process can resume the run before everything opened below is closed.
            self._open.callback(self._record.release)
        self._inputs_grow = inputs_grow
        self._learned: LearnedContents | None = None
        self._claims: ContentClaims | None = None
        self._left_to_others = 0  # samples that other runs were learning from
        if options.once and self._record is not None:
            self._claims = ContentClaims(self._record.store)
            self._open.callback(self._claims.close)
        self._limits = RunLimits(
            self._id, self._token, options.max_cost, options.fail_fast, options.max_consecutive_failures
        )
        self._ends = SampleEnds(self._id, runner, pipeline, skillbook, self._record, failure_log, self._limits)
        self._recent: RecentReflections | None = None
        if options.reflection_window:
            store = None if self._record is None else self._record.store
            redactor = Redactor(known_secrets(), allow=self._ends.allow)
            self._recent = RecentReflections(options.reflection_window, store, redactor)
        self._in_flight: dict[int, SampleInFlight] = {}  # by position; see the invariants
        self._begun = 0  # samples that were drawn and have not ended
        self._ends_of_samples = Changes(threading.Lock())
        self._last_index = 0
        self._mark: BookMark | None = None
        self.is_idle = False
        """Whether the last epoch has changed no skill and `stop_idle` is set, so the run ends."""
        self._was_active = False
        # An earlier call that was killed may have left the end of the run undone.
        self._is_end_due = self._record is not None and self._record.is_resumed and not self._record.was_through
        self._telling = threading.Lock()
        self._started = time.monotonic()
        if options.max_cost is not None:
            self._open.enter_context(observing(self._limits.observe))
        self._spent: RunSpendCounter | None = None
        if self._record is not None and is_observed():  # else a run does not pay for events
            self._spent = RunSpendCounter(self._id)
            self._open.enter_context(observing(self._spent))
        # From here to `finish`, the book is written only by the commits of samples: the key of each is in its
        # transaction.
        self._open.enter_context(skillbook.deferred_commits())
        resumed = self._record is not None and self._record.was_begun
        recovered = self._record is not None and self._record.was_killed
        if is_observed():
            emit(RunStarted(self._id, runner, epochs, total, resumed, recovered))

    async def run_epoch(
        self, calling: Calling, items: Iterable[Any], epoch: int, extra: Mapping[str, Any]
    ) -> list[SampleResult[ACEStepContext]]:
        """Run all inputs through the foreground once.

        Args:
            calling: Whether the pipeline runs on this thread or on the caller's loop.
            items: The inputs.
            epoch: Which epoch this is, from 1.
            extra: Further arguments of `_build_context`.
        """
        skipped: dict[int, SampleResult[ACEStepContext]] = {}
        self._was_active = False
        if self._options.stop_idle:
            self._mark = self._skillbook.mark()
        contexts = SampleContexts(
            self._id,
            self._runner,
            self._record,
            self._build_context,
            epoch=epoch,
            epochs=self._epochs,
            total=self._total,
            extra=extra,
            redactor=Redactor(allow=self._ends.allow),
        )
        if self._options.once and self._record is not None and self._learned is None:
            # With several epochs, only the record of this run says what it has learned itself.
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

    @property
    def has_work_after_epochs(self) -> bool:
        """Whether an epoch must end before the next one starts: a step has work after it, or `stop_idle` is set."""
        return self._options.stop_idle or any(isinstance(step, EndOfEpoch) for step in self._pipeline.steps)

    def end_epoch(self, epoch: int) -> None:
        """Call `end_epoch` of the steps, after all samples of the epoch have ended.

        Nothing is called if the run was stopped, or if an earlier call of the run completed the epoch.

        Args:
            epoch: The epoch, from 1.

        Raises:
            Exception: The error of a step.
        """
        if self._limits.stopped_by or not self._was_active:
            return
        if self._mark is not None:
            self.is_idle = self._skillbook.changed_since(self._mark) == frozenset()
        with call_scope(replace(self._scope(), epoch=epoch, sample=f"end of epoch {epoch}")):
            for step in self._pipeline.steps:
                if isinstance(step, EndOfEpoch):
                    step.end_epoch(epoch)

    def leave_to_background(self) -> None:
        """Note that the caller does not wait for the background or for `finish`."""
        if self._record is not None:
            self._record.leave_to_background()

    def cancel(self) -> None:
        """Stop the run; samples that are in a step finish it."""
        self._token.cancel("interrupted")

    def abandon(self) -> None:
        """End a run before its first epoch, because the task that started it was cancelled."""
        try:
            if self._record is not None:
                self._record.note_stopped()
            self._ends.tell_run_ended(time.monotonic() - self._started, "interrupted")
        finally:
            self._open.close()

    def wait_for_samples(self, *, is_alone: bool) -> None:
        """Wait until all samples of this run have passed their last step.

        Args:
            is_alone: Whether no other run uses the pipeline. Then wait until the engine has no work left for it.
        """
        with may_block_loop():
            self._ends_of_samples.wait_until(lambda: not self._begun)
        if is_alone:
            self._pipeline.wait_for_background()

    def finish(self, *, interrupted: bool = False, is_alone: bool = True) -> None:
        """Wait for the background, and do the remaining work at the end of a run.

        Args:
            interrupted: Whether the run was interrupted; then no model is called.
            is_alone: Whether no other run uses the pipeline.

        Raises:
            SkillbookNotWrittenError: The skillbook could not be written.
            Exception: The first error in recording a failed sample, or in the `end_run` of a step.
        """
        try:
            if interrupted:  # a sample may have been lost between the input and its first step
                self._pipeline.wait_for_background()
            else:
                self.wait_for_samples(is_alone=is_alone)
            # Before the run is noted as complete: after a kill in between, a resumed run does this part again.
            if self._last_index and self._is_end_due:
                self._end_steps(interrupted=interrupted or bool(self._limits.stopped_by))
            stopped_by = self._limits.stopped_by or ("interrupted" if interrupted else "")
            is_idle = self.is_idle and not stopped_by
            if self._record is not None and stopped_by:
                if self._limits.write_error is None:
                    self._record.note_stopped(self._spend())
            elif self._record is not None:
                has_failures = self._ends.counts["failed"] > 0
                if self._record.forgets and not has_failures:
                    forget_answers(self._record.store, self._id)
                self._record.note_through(has_failures=has_failures, spent=self._spend())
            if self._left_to_others:
                logger.warning(
                    "%d of the inputs were skipped because another run is learning from them; "
                    "run again if it fails or is stopped",
                    self._left_to_others,
                )
            self._ends.tell_run_ended(time.monotonic() - self._started, NOTHING_ACCEPTED if is_idle else stopped_by)
        finally:
            self._open.close()
        if is_idle:  # the run is complete, but the caller may want to know why it had fewer epochs
            self._token.cancel(NOTHING_ACCEPTED)
        if self._limits.write_error is not None:
            raise SkillbookNotWrittenError(
                str(self._limits.write_error),
                run_id=self._id,
                learned=self._ends.counts["learned"],
                is_resumable=self._record is not None,
            ) from self._limits.write_error
        if self._ends.problems:
            raise self._ends.problems[0]

    def _spend(self) -> RunSpend | None:
        """Return the cost of this call of the run; None if it started without an observer."""
        if self._spent is None:
            return None
        return replace(self._spent.taken(), seconds=time.monotonic() - self._started)

    def _drawn(
        self,
        items: Iterable[object],
        contexts: SampleContexts,
        drawn: list[SampleInFlight],
        skipped: dict[int, SampleResult[ACEStepContext]],
    ) -> Iterator[ACEStepContext]:
        """Yield the context of each input that is not yet learned, when the engine asks for it.

        Its sample is appended to `drawn`, at the index that the engine counts. The results of the other inputs go into
        `skipped`, by their positions from 0.
        """
        resumed = self._record is not None and self._record.is_resumed
        for index, item in enumerate(items, 1):
            sample = None
            content = self._content_note(item)
            is_known, claims = self._looked_up(item, content)
            is_elsewhere = is_known or claims is None
            if resumed or is_elsewhere:
                ctx = contexts.build(item, index)
                sample = contexts.sample(ctx, index, content, claims or ())
                if self._ends.is_over(sample) or (is_elsewhere and not sample.already_learned):
                    self._release(sample)
                    if self._recent is not None:
                        self._recent.restore(sample.key, sample.attempt)
                    sample = replace(sample, already_learned=True)
                    result = self._skipped(contexts.noted(ctx, sample), sample, is_learned=claims is not None)
                    skipped[index - 1] = result
                    continue
            self._refresh()
            part = self._learned.new_part(item) if self._learned is not None and self._inputs_grow else None
            ctx = contexts.build(item, index, part)  # now that the book is refreshed
            sample = contexts.sample(ctx, index, content, claims or ()) if sample is None else sample
            self._is_end_due = self._was_active = True
            ctx = contexts.noted(ctx, sample)
            if self._recent is not None:
                ctx = ctx.replace(metadata={**ctx.metadata, "recent_reflections": self._recent})
            check_context(ctx, self._pipeline, self._runner, index)
            self._last_index = sample.global_index
            drawn.append(sample)
            # Before the engine has the sample, which may end at once. If Ctrl-C loses it before its first step, the
            # count stays above 0, which is why an interrupted `finish` does not wait for it.
            with uninterrupted, self._ends_of_samples.lock:
                self._begun += 1
            if is_observed():
                emit(SampleStarted(self._id, sample.drawn.trace_id, sample.drawn.epoch, index))
            yield ctx

    def _looked_up(self, item: object, content: Mapping[str, object]) -> tuple[bool, Sequence[str] | None]:
        """Return whether an input has been learned, and what this run has claimed of it.

        Without `once=True`, that is nothing. If another run is learning from the input, it is None.
        """
        if self._learned is None or self._claims is None:
            return False, ()
        if self._learned.knows(item):
            return True, ()
        claims = claimed_contents(content)
        if not self._claims.take(claims):
            return False, None
        # Another run may have learned it, and released it, after the record was read.
        self._learned.refresh(self._id)
        if not self._learned.knows(item):
            return False, claims
        self._claims.release(claims)
        return True, ()

    def _release(self, sample: SampleInFlight) -> None:
        if self._claims is not None:
            self._claims.release(sample.claims)

    def _content_note(self, item: object) -> dict[str, object]:
        """Return what a store notes about the content of an input; empty without a store."""
        if self._record is None:
            return {}
        try:
            return content_of(item, can_grow=self._inputs_grow).note
        except (OSError, ValueError) as error:  # the first step that reads the input raises it
            logger.debug("The content of an input cannot be noted: %s", error)
            return {}

    def _refresh(self) -> None:
        """Update the book with what others have learned."""
        try:
            self._skillbook.refresh()
        except SkillbookStoreError as error:
            self._limits.not_written(error)
            raise

    def _skipped(
        self, ctx: ACEStepContext, sample: SampleInFlight, *, is_learned: bool
    ) -> SampleResult[ACEStepContext]:
        """Return the result of a sample that has been learned, or that another run is learning, and report it."""
        result: SampleResult[ACEStepContext] = SampleResult(ctx.sample, ctx, None, None, None, sample.place)
        self._last_index = sample.global_index
        self._left_to_others += not is_learned
        self._ends.skipped(sample, is_learned=is_learned)
        self._tell_caller("on_sample_done", self._options.on_sample_done, result)
        self._tell_caller("on_sample_end", self._options.on_sample_end, result)
        return result

    def _foreground_ended(self, sample: SampleInFlight, result: SampleResult[ACEStepContext]) -> None:
        """Set the position of a result in the input; the engine does not count inputs that were skipped."""
        result.index = sample.place
        with uninterrupted, self._ends_of_samples.lock:
            self._in_flight[sample.place] = sample
        self._tell_caller("on_sample_done", self._options.on_sample_done, result)

    def _sample_ended(self, result: SampleResult[ACEStepContext]) -> None:
        """Record the outcome of a sample. The engine holds the sample's lane until this returns."""
        with uninterrupted, self._ends_of_samples.lock:
            sample = self._in_flight.pop(result.index)
        try:
            # The lane is still held, so the next sample sees this reflection. The outcome is durable before the caller
            # learns of it, who may end the process in the callback.
            self._note_reflection(sample, result)
            self._ends.ended(sample, result)
            self._release(sample)  # now that its outcome says whether another run may learn from it
            self._tell_caller("on_sample_end", self._options.on_sample_end, result)
        # Whatever failed above, or `wait_for_samples` would never return.
        finally:
            with uninterrupted, self._ends_of_samples.lock:
                self._begun -= 1
                self._ends_of_samples.tell()

    def _note_reflection(self, sample: SampleInFlight, result: SampleResult[ACEStepContext]) -> None:
        """Tell later samples about the reflection on one that was learned."""
        if self._recent is None or result.output is None:
            return
        if sample.already_learned:
            self._recent.restore(sample.key, sample.attempt)
        elif result.output.reflection is not None:
            self._recent.add(result.output.reflection)

    def _tell_caller(self, name: str, callback: OnSample | None, result: SampleResult[ACEStepContext]) -> None:
        if callback is not None:
            self._tell(partial(self._call, name, callback, result))

    def _call(self, name: str, callback: OnSample, result: SampleResult[ACEStepContext]) -> None:
        # Samples end on several threads; the callbacks of the caller need not be thread-safe.
        with self._telling:
            try:
                callback(result)
            except Exception:
                logger.exception("%s raised for sample %d; the run continues", name, result.index + 1)

    def _scope(self) -> CallScope:
        """Return the scope of the model calls of this run."""
        return CallScope(run_id=self._id, store=self._skillbook.store, allow=self._ends.allow)

    def _end_steps(self, *, interrupted: bool) -> None:
        """Let the steps do their remaining work, in their order. Their model calls are recorded like those of samples.

        An error in one step does not prevent that of the others.
        """
        learned = self._ends.counts["learned"] + self._ends.counts["already_learned"]
        with call_scope(replace(self._scope(), epoch=self._epochs, sample=f"end after {learned}")):
            stopping = cancel_token_var.set(self._token)
            try:
                for step in self._pipeline.steps:
                    if isinstance(step, EndOfRun):
                        self._end_step(step, interrupted=interrupted)
            finally:
                cancel_token_var.reset(stopping)

    def _end_step(self, step: EndOfRun, *, interrupted: bool) -> None:
        try:
            step.end_run(self._last_index, interrupted=interrupted)
        except Exception as error:
            logger.error("%s could not end the run: %s", type(step).__name__, error)
            self._ends.problem(error)


@final
class SampleContexts:
    """Makes the contexts of one epoch.

    Args:
        run_id: The name of the run.
        runner: The kind of runner.
        record: The record of the run; None without a store.
        build_context: Makes the context of an input.
        epoch: The epoch, from 1.
        epochs: The number of epochs.
        total: The number of inputs; None if it is not known.
        extra: Further arguments of `build_context`.
        redactor: Replaces what is sensitive in the names of samples, which a store keeps.
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
        redactor: Redactor,
    ) -> None:
        self._run_id = run_id
        self._runner = runner
        self._record = record
        self._build_context = build_context
        self._epoch = epoch
        self._epochs = epochs
        self._total = total
        self._extra = extra
        self._redactor = redactor
        self._times_seen: Counter[str] = Counter()

    def build(self, item: object, index: int, part: object = None) -> ACEStepContext:
        """Return the context of an input as the runner makes it, with the name of the trace.

        Args:
            item: The input.
            index: Its position in the epoch, from 1.
            part: The part of the input that is new; None if all of it is.
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

    def sample(
        self, ctx: ACEStepContext, index: int, content: Mapping[str, object], claims: Sequence[str]
    ) -> SampleInFlight:
        """Return the sample of the run that a context is. Call it once for each input, in order.

        Args:
            ctx: The context.
            index: Its position in the epoch, from 1.
            content: What is noted about the content of the input.
            claims: What is claimed of it.
        """
        trace_id: str = ctx.metadata["trace_id"]
        self._times_seen[trace_id] += 1
        times = self._times_seen[trace_id]
        record = self._record
        name = trace_id if record is None else self._stored_name(trace_id)
        key = SampleKey(self._run_id, self._epoch, name if times == 1 else f"{name} ({times})")
        return SampleInFlight(
            drawn=DrawnSample(ctx.sample, trace_id, self._epoch, index),
            key=key,
            global_index=ctx.global_sample_index,
            attempt=0 if record is None else record.attempt(key),
            attempts={} if record is None else record.attempts(key),
            already_learned=record is not None and (record.is_committed(key) or record.is_over(key)),
            started=time.monotonic(),
            content=content,
            claims=claims,
        )

    def _stored_name(self, trace_id: str) -> str:
        """Return the name of a sample as a store keeps it, without what is sensitive in it."""
        name = self._redactor.redact_name(trace_id)
        if name == trace_id:
            return name
        # Names that differ only in what is replaced must stay different.
        return f"{name} {hashlib.sha256(trace_id.encode()).hexdigest()[:8]}"

    def noted(self, ctx: ACEStepContext, sample: SampleInFlight) -> ACEStepContext:
        """Return the context with the metadata that steps need about the sample."""
        added = {
            "sample_key": sample.key,
            "attempt": sample.attempt,
            "attempts": sample.attempts,
            "already_learned": sample.already_learned,
            "content": sample.content,
        }
        return ctx.replace(metadata={**ctx.metadata, **added})


class SkillbookNotWrittenError(SkillbookError):
    """The skillbook of a run could not be written, so the run was stopped: anything learned later would be lost.

    Attributes:
        reason: The problem.
        run_id: The name of the run.
        learned: How many samples this call of the run has learned.
        is_resumable: Whether what they taught is in a store, so that the run can be resumed. If not, it is in memory.

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

    def skipped(self, sample: SampleInFlight, *, is_learned: bool) -> None:
        """Count a sample that an earlier call of the run, or another run, has learned.

        Args:
            is_learned: Whether it has; else another run is learning from it.
        """
        self._count("already_learned")
        # Another run has learned it since.
        if is_learned and self._record is not None and self._record.has_failed(sample.key):
            self._record.note_over(sample, {})
        self._tell(sample, None, None, 0.0)

    def ended(self, sample: SampleInFlight, result: SampleResult[ACEStepContext]) -> None:
        """Record the outcome of a sample that has ended, in the foreground or the background.

        Args:
            result: Its result.
        """
        # Noted before observers hear of it, so that they do not report what a kill can still undo.
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
    """Return whether a run of a pipeline keeps no text of its inputs."""
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
