"""What happens to samples behind the async boundary, and the wait for them before the interpreter exits.

Who calls what, and on which thread: the worker of a sample calls `Background.enter` and waits while the background is
full; then the threads and the loop of the stages move the `Job` on, each from its own stage into the next one.

Invariants:

- A job is in one stage at a time, and only the code that does its work there touches it.
- Each job that enters leaves once, with its result complete before it is counted. `on_sample_end` is called before
  that.
- The last place is kept for the sample that is first in order: all others may wait in a lane for it.
- The interpreter does not exit while a job is inside, until Ctrl-C gives up on it. That wait is registered before
  `concurrent.futures` and `threading` shut down, because most clients of models need them.
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
from .interrupts import uninterrupted
from .lane import Lane, LaneSteps, Sequencer
from .limiter import AnyWork, LoopWork, limiter_for
from .segment import Position, Segment
from .step import PlannedStep
from .threads import Work
from .waiting import Changes

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


class Pending(Protocol):
    """Something that may still be at work when the interpreter exits."""

    @property
    def is_busy(self) -> bool:
        """Whether it is at work."""

    @property
    def pending(self) -> int:
        """How many samples are not done; 0 for work that is not a sample."""

    @property
    def failed(self) -> int:
        """How many samples failed so far."""

    def drain(self) -> None:
        """Block until it is not at work any more; what went wrong is not raised."""


_watched: WeakSet[Pending] = WeakSet()
_lock = threading.Lock()
_registered = False
_given_up = False


def watch(background: Pending) -> None:
    """See to it that the interpreter does not exit before `background` is empty."""
    global _registered
    with _lock:
        _watched.add(background)
        if not _registered:
            _registered = True
            _register()


def _register() -> None:
    # Pools, asyncio.to_thread and so most clients fail as soon as concurrent.futures has been told of the exit.
    # Its callback and this one are called in the reverse order of their registration: it has to be first.
    import concurrent.futures.thread  # noqa: F401  (imported for that registration)

    # threading calls these before it joins threads; there is no public name for it. The second registration
    # is for samples that a thread of the application brought in while the first was at work.
    register_early = getattr(threading, "_register_atexit", atexit.register)
    try:
        register_early(drain)
    except RuntimeError:  # the exit has already begun; the registration below still counts
        log_problem(logger, logging.DEBUG, "a pipeline was first used while the interpreter exits")
    atexit.register(drain)


def drain() -> None:
    """Wait for all background work, and say so. Ctrl-C gives up on it."""
    global _given_up
    try:
        while not _given_up and (busy := [each for each in _snapshot() if each.is_busy]):
            count = sum(each.pending for each in busy)
            if count:
                message = "the interpreter exits: waiting for %d %s in the background of a pipeline (Ctrl-C gives up)"
                log_problem(logger, logging.WARNING, message, count, "sample" if count == 1 else "samples")
            else:
                message = "the interpreter exits: waiting for the end of a run (Ctrl-C gives up)"
                log_problem(logger, logging.WARNING, message)
            failed_before = sum(each.failed for each in busy)
            for each in busy:
                each.drain()
            failed = sum(each.failed for each in busy) - failed_before
            if failed:
                message = "%d of them failed; wait_for_background() before the exit shows why"
                log_problem(logger, logging.ERROR, message, failed)
    except KeyboardInterrupt:
        _given_up = True
        count = sum(each.pending for each in _snapshot())
        message = "interrupted: %d samples in the background were not finished"
        log_problem(logger, logging.ERROR, message, count)


def _snapshot() -> list[Pending]:
    with _lock:
        return list(_watched)


def _forget_lock() -> None:
    """A forked child has nothing pending, because its parent does that, but maybe the lock of a thread that is gone."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


class Stage(Protocol[C]):
    """A part of the background that a sample waits for, passes and leaves."""

    def submit(self, job: Job[C]) -> None:
        """Have the job performed when its turn has come."""


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

    def perform(self, run: Callable[[C, Position], C]) -> None:
        """Run a stage's plain work on this thread, then continue with the next stage."""
        position = Position()
        self.background.active.add(self)
        try:
            ctx = self.context.run(run, self.ctx, position)
        except BaseException as error:  # SystemExit too is this sample's error: the thread serves others
            self._fail(error, position)
        else:
            self._succeed(ctx)

    async def perform_async(self, run: Callable[[C, Position], Awaitable[C]], then: Callable[[Work], None]) -> None:
        """Await a stage's work. Passes its continuation to `then`, to be called when this task has left its context."""
        position = Position()
        self.background.active.add(self)
        try:
            ctx = await run(self.ctx, position)
        except BaseException as error:  # as in `perform`; only the step itself cancels this task
            then(partial(self._fail, error, position))
        else:
            then(partial(self._succeed, ctx))

    def refuse(self, error: BaseException) -> None:
        """End the sample because a stage cannot be had, before it has begun."""
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
        finally:  # whatever happens, samples that wait for this one's turn pass, and it is counted
            self.order.skip(self.index)
            self.background.leave(self.in_flight, failed=True)


@final
class Background(Generic[C]):
    """The samples of one pipeline that are behind its boundary.

    Args:
        stages: What each sample passes, in order.
        limit: How many samples may be inside at once; those that come then wait.
    """

    def __init__(self, stages: Sequence[Stage[C]], limit: int) -> None:
        self.stages = tuple(stages)
        self._limit = limit
        self._completed = 0
        self._failed = 0
        self.forget()

    def forget(self) -> None:
        """Start with nothing inside. A forked child calls it too: its parent does the work that was inside."""
        self._lock = threading.Lock()
        self._changes = Changes(self._lock)
        self._inside = 0
        self.active: set[Job[C]] = set()  # those in a step; adding and discarding is one step of the interpreter each
        self.untold: set[CallerLoop] = set()  # loops that have not made all calls of on_sample_end yet

    def enter(self, job: Job[C]) -> None:
        """Let a sample in; wait while there is no room for it."""
        while not self.enter_at_once(job):
            self._changes.wait_until(lambda: self._has_room(job))

    def enter_at_once(self, job: Job[C]) -> bool:
        """Take a sample in if there is room for it, and say whether there was."""
        with uninterrupted:
            with self._lock:
                if not self._has_room(job):
                    return False
                self._admit(job)
            job.proceed()
            return True

    def skip(self, order: Sequencer, index: int) -> None:
        """Note that a sample of the run will never come."""
        if order.is_released(index):  # it has come after all: what was interrupted is only who brought it
            return
        order.skip(index)
        with self._lock:
            self._changes.tell()

    def _has_room(self, job: Job[C]) -> bool:
        # The last place is reserved for the sample that is first in order: all others may be waiting in a lane for
        # one that is still in the foreground, and if they filled the background it could never get in.
        if self._inside + 1 < self._limit:
            return True
        return self._inside < self._limit and job.order.is_first(job.index)

    def _admit(self, job: Job[C]) -> None:
        if self._inside == 0:
            watch(self)
        self._inside += 1
        job.in_flight.inside_background += 1
        job.order.release(job.index)
        self._changes.tell()

    def leave(self, in_flight: InFlight[C], *, failed: bool) -> None:
        """Count a sample that has passed all stages, or failed in one."""
        with self._lock:
            self._inside -= 1
            in_flight.inside_background -= 1
            self._completed += 1
            self._failed += failed
            self._changes.tell()

    def wait(self, timeout: float | None = None) -> None:
        """Block until nothing is inside.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: If samples are still inside then; the text says how many.
        """
        if not self._changes.wait_until(lambda: self._inside == 0, timeout) and (count := self._inside):
            raise TimeoutError(
                f"{count} {'sample is' if count == 1 else 'samples are'} still in the background after "
                f"{timeout:g} s; they continue, wait again to see them end"
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
        """How many samples failed so far."""
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
    """One step, which as many samples pass at once as its limit allows."""

    def __init__(self, step: PlannedStep[C]) -> None:
        self._segment = Segment([step])
        self._limiter = limiter_for(step)

    def submit(self, job: Job[C]) -> None:
        """Have the job performed when there is a place in the step."""
        self._limiter.submit(_work(job, self._segment), job.order, job.index)


@final
class LaneStage(Generic[C]):
    """Neighbouring steps of one lane, which one sample at a time passes in input order.

    The lane takes the place of the steps' own limits: two pipelines whose lanes have different keys never wait
    for each other, though their steps be of one class.

    Args:
        lane: The lane, shared with every pipeline that names it with the same key.
        steps: The steps of the section.
        number: Which lane section of its pipeline it is, counted from 0.
    """

    def __init__(self, lane: Lane, steps: Sequence[PlannedStep[C]], number: int) -> None:
        self._lane = lane  # kept, so that others with the same name and key find it
        self._steps = LaneSteps(steps)
        self._number = number

    def submit(self, job: Job[C]) -> None:
        """Have the job performed when it is its turn."""
        job.order.turns[self._number].arrive(job.index, _work(job, self._steps))


def _work(job: Job[C], steps: Segment[C] | LaneSteps[C]) -> AnyWork:
    """Return what takes a sample through steps: on the engine's loop if all are asynchronous, else on a thread."""
    if steps.is_async:
        return LoopWork(partial(job.perform_async, steps.run_async), job.context, job.refuse)
    return partial(job.perform, steps.run)
