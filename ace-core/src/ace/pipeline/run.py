"""The runs of one pipeline: how they begin and end, and what the workers of one run share.

Who calls what, and on which thread:

- the thread or loop that calls `run`, `run_async`, `stream` or `astream` begins and ends the `Run`, through `Runs`;
- with one worker, if no event loop runs on the caller's thread, that thread does everything (`process_one_by_one`): it
  draws, runs the steps, and brings the sample into the background, waiting while that is full;
- otherwise the workers of a driver, which are other threads or tasks, call `number`, and each for its own sample
  `process`, or, in tasks, the methods that it consists of: `begin`, `check`, `succeed`, `fail` and `skip`;
- `stop`, `abort` and `interrupt` may be called on any thread.

Invariants:

- Only the worker that draws calls `number`, one at a time, so the numbers follow the order of the input.
- Consecutive runs share one order, so that their samples stay in order in the lanes and in the background. A run that
  begins while another one is active gets an order of its own, so that neither waits for samples of the other.
- A number of a run that was interrupted, or whose workers are left behind, may never arrive, so the next run gets a new
  order.
- `on_sample_done` is called before the sample enters the background, one call at a time.
- A sample runs in a copy of the run's context variables, so it does not see what another sample has set.
- Each sample that was drawn either enters the background or is skipped in the run's order, even if an error is raised.
  Otherwise the samples after it would wait for it indefinitely.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar, final
from weakref import WeakSet

from .background import Background, Job
from .caller import Caller, CallerLoop, caller_var
from .cancellation import CancellationToken, Interruption, cancel_token_var, interruption_var
from .context import SampleResult, StepContext, record_failure
from .errors import PipelineCancelled, log_problem
from .hooks import PipelineHook, relayed
from .in_flight import InFlight, OnSample, announce
from .lane import LaneSegment, Sequencer
from .plan import Plan
from .segment import Position
from .threads import uninterrupted
from .validation import RunArguments

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


@final
class Run(Generic[C]):
    """What the workers of one run share: the order of the input, and what is done with each sample.

    The two drivers, on threads and on an event loop, decide where and when it is done, if not on the caller's thread.

    Args:
        plan: The pipeline's plan.
        background: Where samples go after the foreground; None if the pipeline has no boundary.
        order: The input order; None if the pipeline has neither a background nor lanes.
        hooks: Observers of the foreground steps.
        token: Cancels the run.
        on_sample_done: Called with each result when the sample's foreground part has ended.
        on_sample_end: Called with each result when the sample has passed its last step, has failed or was cancelled.
        max_in_flight: How many samples may be between their first and their last step; None sets no limit.
        caller: Where hooks and callbacks are called; None calls them on the thread of the worker.
    """

    def __init__(
        self,
        plan: Plan[C],
        background: Background[C] | None,
        order: Sequencer | None,
        hooks: Sequence[PipelineHook],
        token: CancellationToken | None,
        on_sample_done: OnSample[C] | None,
        on_sample_end: OnSample[C] | None,
        max_in_flight: int | None,
        caller: Caller | None,
    ) -> None:
        self.plan = plan
        self.background = background
        self.order = order
        self._hooks = self.hooks = tuple(hooks)
        self.calls_hooks = bool(hooks) or plan.has_inner_hooks
        self.is_observed = self.calls_hooks or on_sample_done is not None or on_sample_end is not None
        self.token = token
        self.stopped = False
        self.is_left_behind = False  # nothing waits for its workers
        self.in_flight = InFlight(max_in_flight, token, on_sample_end)
        # Contexts of these classes need no check. Empty if the run can be cancelled, which is checked for each sample.
        self.checked_classes: set[type] = plan.inputs.complete_classes if token is None else set()
        self._tells_ends = self.in_flight.is_watched
        self.failure: BaseException | None = None
        self.variables = contextvars.copy_context()
        self._interruption = Interruption()
        self.variables.run(interruption_var.set, self._interruption)
        if token is not None:
            self.variables.run(cancel_token_var.set, token)
            if max_in_flight is not None:
                token._listen(self.in_flight.wake)
        self.caller: Caller | None = None
        self.use_caller(caller)
        self._on_sample_done = on_sample_done
        self._announcing = threading.Lock()

    def use_caller(self, caller: Caller | None) -> None:
        """Set where hooks and callbacks are called, before the first sample is drawn."""
        self.caller = caller
        if self._hooks:
            self.hooks = relayed(self._hooks, caller)
        if self.variables.get(caller_var) is not caller:  # also if it is None: this may run inside a step
            self.variables.run(caller_var.set, caller)

    def end(self) -> None:
        """Unsubscribe from the cancellation token, once no caller waits for the run anymore."""
        if self.token is not None:
            self.token._forget(self.in_flight.wake)

    def number(self) -> int:
        """Return the number of the sample that was just drawn. Only one worker at a time draws."""
        return self.order.issue() if self.order is not None else 0

    def stop(self) -> None:
        """Draw no more samples."""
        self.stopped = True
        self.in_flight.stop()

    def interrupt(self) -> None:
        """Let long steps in the foreground see that the run has ended; see `is_interrupted`."""
        self._interruption.has_come = True

    def abort(self, error: BaseException) -> None:
        """End the run with an error that belongs to no sample. Only the first one is kept."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.interrupt()
        if self.failure is None:
            self.failure = error
        self.stop()

    def process_one_by_one(self, source: Iterator[C]) -> Iterator[SampleResult[C]]:
        """Run all samples on this thread, and yield their results."""
        for place, ctx in enumerate(self.in_flight.let_in(source)):
            yield self.process(place, self.number(), ctx)

    def process(self, place: int, index: int, ctx: C) -> SampleResult[C]:
        """Run the foreground of one sample on this thread, and bring the sample into the background.

        Args:
            place: The position of the sample in the input.
            index: Its number in the run's order.
            ctx: Its context.
        """
        return self.variables.copy().run(self._process, place, index, ctx)

    def _process(self, place: int, index: int, ctx: C) -> SampleResult[C]:
        position = Position()
        result = self.begin(place, ctx, position)
        try:
            try:
                if ctx.__class__ not in self.checked_classes:
                    self.check(ctx, position)
                for part in self.plan.foreground:
                    if isinstance(part, LaneSegment):
                        ctx = part.pass_through(ctx, position, self, index)
                    else:
                        ctx = part.run(ctx, position, self.token, self.hooks)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self.fail(index, result, error, position)
            else:
                job = self.succeed(index, result, ctx)
                if job is not None:
                    job.background.enter(job)
        except BaseException:  # the run ends here, but samples of other runs must not wait for this one
            self.skip(index)
            raise
        return result

    def begin(self, place: int, ctx: C, position: Position) -> SampleResult[C]:
        """Return the result, still empty, of a sample that is before its first step."""
        position.step_name = self.plan.first_step
        return SampleResult(getattr(ctx, "sample", ctx), None, None, None, None, place)

    def check(self, ctx: C, position: Position) -> None:
        """Check, before a sample's first step, that it can run.

        Raises:
            PipelineCancelled: If the run is cancelled.
            PipelineError: If the context lacks a field.
        """
        if self.token is not None and self.token.is_cancelled:
            raise PipelineCancelled
        self.plan.inputs.check(ctx, position)

    def succeed(self, index: int, result: SampleResult[C], ctx: C) -> Job[C] | None:
        """Record that a foreground has succeeded. Returns the job that has to enter the background, if there is one."""
        result.output = ctx
        if self._on_sample_done is not None:
            announce("on_sample_done", self._on_sample_done, result, self._announcing, self.caller)
        if self.background is None or self.order is None:
            if self._tells_ends:
                self.in_flight.end(result, self.caller)
            return None
        variables = contextvars.copy_context()
        caller = self.caller
        return Job(self.background, result, ctx, variables, self.order, index, self.in_flight, caller)

    def fail(self, index: int, result: SampleResult[C], error: BaseException, position: Position) -> None:
        """Record that a foreground has failed or was cancelled."""
        record_failure(result, error, position.step_name)
        self.skip(index)
        if self._on_sample_done is not None:
            announce("on_sample_done", self._on_sample_done, result, self._announcing, self.caller)
        if self._tells_ends:
            self.in_flight.end(result, self.caller)

    def skip(self, index: int) -> None:
        """Let the samples after this one pass in the lanes and into the background."""
        with uninterrupted:
            if self.background is not None and self.order is not None:
                self.background.skip(self.order, index)
            elif self.order is not None:
                self.order.skip(index)


@final
class Runs(Generic[C]):
    """Begins and ends the runs of one pipeline. They share its background and, if they do not overlap, its order.

    Args:
        plan: The pipeline's plan.
        hooks: Observers of the foreground steps.
        background_limit: How many samples may be behind the boundary at once.
    """

    def __init__(self, plan: Plan[C], hooks: Sequence[PipelineHook], background_limit: int) -> None:
        self._plan = plan
        self._hooks = hooks
        self.background = Background(plan.stages, background_limit)
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        """Start with no run. A forked child calls it too, because its parent continues the existing ones."""
        self._lock = threading.RLock()  # the garbage collector may close a stream while this is held
        self._active: WeakSet[Run[C]] = WeakSet()
        self._order = Sequencer(self._plan.lanes)
        self.background.forget()

    @contextmanager
    def one(self, options: RunArguments[C]) -> Iterator[Run[C]]:
        """Begin a run, and end it with the block. If it is interrupted, its samples in the background are finished."""
        run = self._begin(options, None)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            self._drain(run)
            raise
        finally:
            self._end(run)

    @asynccontextmanager
    async def one_async(self, options: RunArguments[C]) -> AsyncIterator[Run[C]]:
        """Like `one`, without blocking the loop."""
        from .event_loop import call_in_thread

        is_observed = bool(self._hooks) or self._plan.has_inner_hooks or options.has_callbacks
        run = self._begin(options, CallerLoop(self.background.loops_with_calls) if is_observed else None)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            await call_in_thread(lambda: self._drain(run))
            raise
        finally:
            self._end(run)

    def _begin(self, options: RunArguments[C], caller: Caller | None) -> Run[C]:
        if self._plan.awaits_in_background:
            from .event_loop import engine_loop

            engine_loop.ensure_running()
        background = self.background if self._plan.stages else None
        needs_order = background is not None or bool(self._plan.lanes)
        with self._lock:
            if self._active:
                # The samples of overlapping runs must not wait for each other.
                self._order = Sequencer(self._plan.lanes)
            order = self._order if needs_order else None
            run = Run(
                self._plan,
                background,
                order,
                self._hooks,
                options.cancel_token,
                options.on_sample_done,
                options.on_sample_end,
                options.max_in_flight,
                caller,
            )
            self._active.add(run)
        return run

    def _end(self, run: Run[C]) -> None:
        run.end()
        with self._lock:
            self._active.discard(run)
            if run.is_left_behind:  # its workers continue to number their samples
                self._order = Sequencer(self._plan.lanes)

    def _drain(self, run: Run[C]) -> None:
        """Finish the background of a run that was interrupted, and replace its order, which may lack a sample."""
        with self._lock:
            self._order = Sequencer(self._plan.lanes)
        pending = run.in_flight.inside_background
        if pending:
            message = "the run was interrupted: waiting for %d samples in the background"
            log_problem(logger, logging.WARNING, message, pending)
            self.background.wait_for(run.in_flight)


_all: WeakSet[Runs[Any]] = WeakSet()  # with contexts of any type


def _forget_all() -> None:
    for runs in list(_all):
        runs._forget()


os.register_at_fork(after_in_child=_forget_all)
