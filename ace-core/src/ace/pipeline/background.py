"""The processing of samples behind the async boundary, and the wait for them before the interpreter exits.

Who calls what, and on which thread: the worker of a sample calls `Background.enter` and waits while the background is
full. Then the threads and the loop of the stages move the `Job` on, each from its own stage to the next.

Invariants:

- A job is in one stage at a time, and only the code that does its work there touches it.
- Each job that enters leaves once. Before it is counted, its result is complete and `on_sample_end` has been called.
- The last slot is reserved for the sample that is first in order, because all others may be waiting for it in a lane.
- The interpreter does not exit while a job is inside, unless Ctrl-C interrupts that wait. The wait is registered so
  that it comes before `concurrent.futures` and `threading` shut down, because most clients of models need them.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar, final
from weakref import WeakSet

from .caller import Caller, CallerLoop
from .context import SampleResult, StepContext, record_failure
from .errors import log_problem
from .in_flight import InFlight
from .lane import Lane, LaneSteps, Sequencer, Turns
from .limiter import AnyWork, LoopWork, limiter_for
from .segment import Position, Segment
from .step import PlannedStep
from .threads import Changes, Work, uninterrupted

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


class Pending(Protocol):
    """Work that may not be done when the interpreter exits."""

    @property
    def is_busy(self) -> bool:
        """Whether there is work left."""

    @property
    def pending(self) -> int:
        """How many samples have not ended; 0 for work that is not a sample."""

    @property
    def failed(self) -> int:
        """How many samples have failed so far."""

    def drain(self) -> None:
        """Block until no work is left; errors are not raised."""


_watched: WeakSet[Pending] = WeakSet()
_lock = threading.Lock()
_registered = False
_given_up = False


def watch(background: Pending) -> None:
    """Make the interpreter's exit wait until `background` has no work left."""
    global _registered
    with _lock:
        _watched.add(background)
        if not _registered:
            _registered = True
            _register()


def _register() -> None:
    # Pools, asyncio.to_thread and thus most clients fail once concurrent.futures has been told of the exit. Its
    # callback and this one are called in the reverse order of their registration, so its own has to come first.
    import concurrent.futures.thread  # noqa: F401  (imported for that registration)

    # threading calls these before it joins threads; the function has no public name. The second registration is for
    # samples that a thread of the application adds while the first one is waiting.
    register_early = getattr(threading, "_register_atexit", atexit.register)
    try:
        register_early(drain)
    except RuntimeError:  # the exit has already begun; the registration below still works
        log_problem(logger, logging.DEBUG, "a pipeline was first used while the interpreter exits")
    atexit.register(drain)


def drain() -> None:
    """Wait for all background work, and log that. Ctrl-C stops waiting."""
    global _given_up
    try:
        while not _given_up and (busy := [work for work in _snapshot() if work.is_busy]):
            count = sum(work.pending for work in busy)
            if count:
                message = "the interpreter is exiting: waiting for %d %s in the background of a pipeline (%s)"
                samples = "sample" if count == 1 else "samples"
                log_problem(logger, logging.WARNING, message, count, samples, "Ctrl-C to stop waiting")
            else:
                message = "the interpreter is exiting: waiting for the end of a run (Ctrl-C to stop waiting)"
                log_problem(logger, logging.WARNING, message)
            failed_before = sum(work.failed for work in busy)
            for work in busy:
                work.drain()
            failed = sum(work.failed for work in busy) - failed_before
            if failed:
                message = "%d of them failed; call wait_for_background() before the exit to see why"
                log_problem(logger, logging.ERROR, message, failed)
    except KeyboardInterrupt:
        _given_up = True
        count = sum(work.pending for work in _snapshot())
        message = "interrupted: %d samples in the background were not finished"
        log_problem(logger, logging.ERROR, message, count)


def _snapshot() -> list[Pending]:
    with _lock:
        return list(_watched)


def _forget() -> None:
    """Start with nothing pending in a forked child: its parent does that, and one of its threads may hold the lock."""
    global _lock
    _lock = threading.Lock()
    _watched.clear()


os.register_at_fork(after_in_child=_forget)


class Stage(Protocol[C]):
    """A part of the background that a sample passes."""

    def submit(self, job: Job[C]) -> None:
        """Perform the job when it is its turn."""


@final
@dataclass(slots=True, eq=False)
class Job(Generic[C]):
    """One sample on its way through the background."""

    background: Background[C]
    result: SampleResult[C]
    ctx: C
    context: Context
    order: Sequencer
    index: int
    in_flight: InFlight[C]
    caller: Caller | None
    stage_index: int = 0

    def proceed(self) -> None:
        """Go to the next stage, or end."""
        stages = self.background.stages
        if self.stage_index == len(stages):
            self.result.output = self.ctx
            try:
                if self.in_flight.is_watched:
                    self.in_flight.end_behind(self.result, self.caller)
            finally:
                self.background.leave(self.in_flight, failed=False)
        else:
            stages[self.stage_index].submit(self)

    def perform(self, run: Callable[..., C], turns: Turns | None = None) -> None:
        """Run a stage's plain work on this thread, then continue with the next stage.

        Args:
            run: The work: takes the context and the position, and in a lane `turns` and the number of the sample first.
            turns: The turns of the lane. (To bind them with `partial` would double the cost of this method.)
        """
        position = Position()
        self.background.active.add(self)
        try:
            if turns is None:
                ctx = self.context.run(run, self.ctx, position)
            else:
                ctx = self.context.run(run, turns, self.index, self.ctx, position)
        except BaseException as error:  # SystemExit too is only this sample's error: the thread serves other samples
            self._fail(error, position)
        else:
            self._succeed(ctx)

    async def perform_async(self, run: Callable[[C, Position], Awaitable[C]], then: Callable[[Work], None]) -> None:
        """Await a stage's work, and pass its continuation to `then`, which is called when this task has ended."""
        position = Position()
        self.background.active.add(self)
        try:
            ctx = await run(self.ctx, position)
        except BaseException as error:  # as in `perform`; only the step itself can have cancelled this task
            then(partial(self._fail, error, position))
        else:
            then(partial(self._succeed, ctx))

    def refuse(self, error: BaseException) -> None:
        """End the sample before a stage, because the stage cannot run."""
        self._end(error, None)

    def _succeed(self, ctx: C) -> None:
        self.background.active.discard(self)
        self.ctx = ctx
        self.stage_index += 1
        self.proceed()

    def _fail(self, error: BaseException, position: Position) -> None:
        self.background.active.discard(self)
        self._end(error, position.step_name)

    def _end(self, error: BaseException, step_name: str | None) -> None:
        try:
            record_failure(self.result, error, step_name)
            if self.in_flight.is_watched:
                self.in_flight.end_behind(self.result, self.caller)
        finally:  # samples that wait for this one must pass, and it must be counted, even after an error
            self.order.skip(self.index)
            self.background.leave(self.in_flight, failed=True)


@final
class Background(Generic[C]):
    """The samples of one pipeline that are behind its boundary.

    Args:
        stages: What each sample passes, in order.
        limit: How many samples may be inside at once; further ones wait.
    """

    def __init__(self, stages: Sequence[Stage[C]], limit: int) -> None:
        self.stages = tuple(stages)
        self._limit = limit
        self._completed = 0
        self._failed = 0
        self.forget()

    def forget(self) -> None:
        """Start empty. A forked child calls it too, because its parent does the work that was inside."""
        self._lock = threading.Lock()
        self._changes = Changes(self._lock)
        self._inside = 0
        self.active: set[Job[C]] = set()  # jobs in a step; adding and discarding are atomic
        self.untold: set[CallerLoop] = set()  # loops that have yet to make calls of on_sample_end

    def enter(self, job: Job[C]) -> None:
        """Let a sample in; wait until there is room for it."""
        while not self.enter_at_once(job):
            self._changes.wait_until(lambda: self._has_room(job))

    def enter_at_once(self, job: Job[C]) -> bool:
        """Let a sample in if there is room for it. Returns whether there was."""
        with uninterrupted:
            with self._lock:
                if not self._has_room(job):
                    return False
                if self._inside == 0:
                    watch(self)
                self._inside += 1
                job.in_flight.inside_background += 1
                job.order.release(job.index)
                if self._changes.waiters:
                    self._changes.tell()
            job.proceed()
            return True

    def skip(self, order: Sequencer, index: int) -> None:
        """Note that a sample of the run will never enter."""
        if order.is_released(index):  # it has entered: its worker was interrupted only after that
            return
        order.skip(index)
        with self._lock:
            self._changes.tell()

    def _has_room(self, job: Job[C]) -> bool:
        # The last slot is reserved for the sample that is first in order: all others may be waiting in a lane for one
        # that is still in the foreground. If they filled the background, it could never enter.
        if self._inside + 1 < self._limit:
            return True
        return self._inside < self._limit and job.order.is_first(job.index)

    def leave(self, in_flight: InFlight[C], *, failed: bool) -> None:
        """Count a sample that has passed all stages, or failed in one."""
        with self._lock:
            self._inside -= 1
            in_flight.inside_background -= 1
            self._completed += 1
            self._failed += failed
            if self._changes.waiters:
                self._changes.tell()

    def wait(self, timeout: float | None = None) -> None:
        """Block until nothing is inside.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: If samples are still inside then; the message says how many.
        """
        if not self._changes.wait_until(lambda: self._inside == 0, timeout) and (count := self._inside):
            raise TimeoutError(
                f"{count} {'sample is' if count == 1 else 'samples are'} still in the background after "
                f"{timeout:g} s; they continue, so wait again to see them end"
            )
        self._make_late_calls()

    def drain(self) -> None:
        """Block until nothing is inside."""
        self.wait()

    def wait_for(self, in_flight: InFlight[C]) -> None:
        """Block until nothing of one run is inside."""
        self._changes.wait_until(lambda: in_flight.inside_background == 0)
        self._make_late_calls()

    def _make_late_calls(self) -> None:
        for loop in list(self.untold):
            loop.make_late_calls()

    @property
    def is_busy(self) -> bool:
        """Whether samples are inside."""
        return self._inside > 0

    @property
    def pending(self) -> int:
        """How many samples are inside."""
        return self._inside

    @property
    def failed(self) -> int:
        """How many samples have failed so far."""
        return self._failed

    def stats(self) -> dict[str, int]:
        """Return the counts of samples: active, queued, completed, failed."""
        with self._lock:
            active = len(self.active)
            return {
                "active": active,
                "queued": self._inside - active,
                "completed": self._completed,
                "failed": self._failed,
            }


@final
class ParallelStage(Generic[C]):
    """One step, which several samples may pass at once, up to its limit."""

    def __init__(self, step: PlannedStep[C]) -> None:
        self._segment = Segment([step])
        self._limiter = limiter_for(step)

    def submit(self, job: Job[C]) -> None:
        """Perform the job when the step has a free slot: on the engine's loop if it is asynchronous."""
        work: AnyWork
        if self._segment.is_async:
            work = LoopWork(partial(job.perform_async, self._segment.run_async), job.context, job.refuse)
        else:
            work = partial(job.perform, self._segment.run)
        self._limiter.submit(work, job.order, job.index)


@final
class LaneStage(Generic[C]):
    """Adjacent steps of one lane, which one sample at a time passes in input order.

    The lane replaces the steps' own limits: two pipelines whose lanes have different keys never wait for each other,
    even if their steps are of the same class.

    Args:
        lane: The lane, shared with every pipeline that names it with the same key.
        steps: The steps of the section.
        number: The position of this lane section among those of its pipeline, from 0.
        is_last: Whether no stage follows.
    """

    def __init__(self, lane: Lane, steps: Sequence[PlannedStep[C]], number: int, *, is_last: bool) -> None:
        self._lane = lane  # keeps it alive, so that `lane_for` finds it
        self._steps = LaneSteps(steps, is_end=is_last)
        self._number = number

    def submit(self, job: Job[C]) -> None:
        """Perform the job when it is its turn."""
        turns = job.order.turns[self._number]
        work: AnyWork
        if self._steps.is_async:
            run_async = partial(self._steps.run_async, turns, job.index)
            work = LoopWork(partial(job.perform_async, run_async), job.context, job.refuse)
        else:
            work = partial(job.perform, self._steps.run, turns)
        turns.arrive(job.index, work, job.ctx, job.context)
