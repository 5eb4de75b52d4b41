"""What happens to samples behind the async boundary."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar, final

from . import interpreter_exit
from .caller import Caller, CallerLoop
from .context import StepContext
from .in_flight import InFlight
from .interrupts import uninterrupted
from .lane import InputOrder
from .result import SampleResult, record_failure
from .segment import Position
from .threads import Work
from .waiting import Changes

C = TypeVar("C", bound=StepContext)


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
    order: InputOrder
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
            self.order.give_up(self.index)
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

    def pass_by(self, order: InputOrder, index: int) -> None:
        """Note that a sample of the run will never come."""
        if order.is_settled(index):  # it has come after all: what was interrupted is only who brought it
            return
        order.give_up(index)
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
            interpreter_exit.watch(self)
        self._inside += 1
        job.in_flight.inside_background += 1
        job.order.settle(job.index)
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
