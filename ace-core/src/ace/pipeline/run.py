"""The runs of one pipeline: how they begin and end, and what the workers of one run share.

Who calls what, and on which thread:

- the thread or loop that calls `run`, `run_async`, `stream` or `astream` begins and ends the `Run`, through `Runs`;
- the workers, which are that thread, other threads, or tasks, call `number`, `begin`, `check`, `succeed`, `fail` and
  `skip`, each for its own sample;
- `stop`, `abort` and `interrupt` may be called on any thread.

Invariants:

- `number` is called by the worker that draws, one at a time, so the numbers are the order of the input.
- Runs that follow each other share one order, so that their samples stay in order in the lanes and in the background. A
  run that begins while another one is active gets an order of its own: neither waits for samples of the other.
- A run that was interrupted, or whose workers are left behind, may lack a number in its order, so the next run gets
  another one.
- `on_sample_done` is called before the sample enters the background, never twice at once.
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
from .interrupts import uninterrupted
from .lane import Sequencer
from .plan import Plan
from .segment import Position
from .validation import RunOptions

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


@final
class Run(Generic[C]):
    """What the workers of one run share: the input, the order, and what to do with each sample.

    It says what is done with a sample; the two drivers, on threads and on an event loop, say where and when.

    Args:
        plan: The pipeline's plan.
        background: Where samples go after the foreground; None where the pipeline has no boundary.
        order: The input order, where the pipeline has a background or lanes.
        hooks: Observers of the foreground steps.
        token: Cancels the run.
        on_sample_done: Called with each result when the sample's foreground part is over.
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
        # No sample of these classes has to be checked; empty where each sample has to be, for the run may be cancelled.
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
        """Say where hooks and callbacks are called, before the first sample is drawn."""
        self.caller = caller
        self.hooks = relayed(self._hooks, caller)
        if self.variables.get(caller_var) is not caller:  # None too: this may be a run inside a step of another one
            self.variables.run(caller_var.set, caller)

    def end(self) -> None:
        """Note that nothing waits for the run any more."""
        if self.token is not None:
            self.token._forget(self.in_flight.wake)

    def number(self) -> int:
        """Number the sample that was just drawn. Only one worker at a time draws."""
        return self.order.issue() if self.order is not None else 0

    def stop(self) -> None:
        """Draw no more samples."""
        self.stopped = True
        self.in_flight.stop()

    def interrupt(self) -> None:
        """Tell long steps in the foreground that their results are no longer awaited."""
        self._interruption.has_come = True

    def abort(self, error: BaseException) -> None:
        """End the run with an error that belongs to no sample. The first one counts."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.interrupt()
        if self.failure is None:
            self.failure = error
        self.stop()

    def begin(self, place: int, ctx: C, position: Position) -> SampleResult[C]:
        """Return the empty result of a sample that is before its first step."""
        position.step_name = self.plan.first_step
        return SampleResult(getattr(ctx, "sample", ctx), None, None, None, None, place)

    def check(self, ctx: C, position: Position) -> None:
        """Check what has to hold before a sample's first step.

        Raises:
            PipelineCancelled: If the run is cancelled.
            PipelineError: If the context lacks a field.
        """
        if self.token is not None and self.token.is_cancelled:
            raise PipelineCancelled
        self.plan.inputs.check(ctx, position)

    def succeed(self, index: int, result: SampleResult[C], ctx: C) -> Job[C] | None:
        """Record that a foreground ended well. Returns the job with which the sample has to enter the background."""
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
        """Record that a foreground failed, or was cancelled."""
        record_failure(result, error, position.step_name)
        self.skip(index)
        if self._on_sample_done is not None:
            announce("on_sample_done", self._on_sample_done, result, self._announcing, self.caller)
        if self._tells_ends:
            self.in_flight.end(result, self.caller)

    def skip(self, index: int) -> None:
        """Let the samples behind this one pass, in the lanes and into the background."""
        with uninterrupted:
            if self.background is not None and self.order is not None:
                self.background.skip(self.order, index)
            elif self.order is not None:
                self.order.skip(index)


@final
class Runs(Generic[C]):
    """Begins and ends the runs of one pipeline, which share its background and, one after the other, its order.

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
        """Start with no run. A forked child calls it too: its parent continues the existing ones."""
        self._lock = threading.RLock()  # the garbage collector may close a stream while it is held
        self._active: WeakSet[Run[C]] = WeakSet()
        self._order = Sequencer(self._plan.lanes)
        self.background.forget()

    @contextmanager
    def one(self, options: RunOptions[C]) -> Iterator[Run[C]]:
        """Begin a run, and end it with the block. One that is interrupted waits for its samples in the background."""
        run = self._begin(options, None)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            self._drain(run)
            raise
        finally:
            self._end(run)

    @asynccontextmanager
    async def one_async(self, options: RunOptions[C]) -> AsyncIterator[Run[C]]:
        """Like `one`, without blocking the loop."""
        from .event_loop import call_in_thread

        is_observed = bool(self._hooks) or self._plan.has_inner_hooks or options.has_callbacks
        run = self._begin(options, CallerLoop(self.background.untold) if is_observed else None)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            await call_in_thread(lambda: self._drain(run))
            raise
        finally:
            self._end(run)

    def _begin(self, options: RunOptions[C], caller: Caller | None) -> Run[C]:
        if self._plan.awaits_in_background:
            from .event_loop import engine_loop

            engine_loop.ensure_running()
        background = self.background if self._plan.stages else None
        needs_order = background is not None or bool(self._plan.lanes)
        with self._lock:
            if self._active:
                # Samples of an active run must not wait for each other's turn across the two.
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
        """Finish the background of a run that was interrupted, whose order may lack a sample."""
        with self._lock:
            self._order = Sequencer(self._plan.lanes)
        pending = run.in_flight.inside_background
        if pending:
            message = "the run was interrupted: waiting for %d samples in the background"
            log_problem(logger, logging.WARNING, message, pending)
            self.background.wait_for(run.in_flight)


_all: WeakSet[Runs[Any]] = WeakSet()  # whatever their contexts


def _forget_all() -> None:
    for runs in list(_all):
        runs._forget()


os.register_at_fork(after_in_child=_forget_all)
