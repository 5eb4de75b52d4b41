"""Lanes: sections of a pipeline that one sample at a time passes, in input order.

Who calls what, and on which thread: workers (in the foreground) and the threads of earlier stages (in the background)
call `Turns.arrive`; the work itself is done by the lane's limiter, on a kept thread or on the engine's loop. A worker
on a thread waits for it in `LaneSegment.pass_through`, one on a loop awaits what `LaneSegment.start` fulfils.

Invariants:

- Samples of one run enter a lane in the order of their numbers. Each number arrives in each lane or is skipped.
- Runs that share a lane enter it in the order in which their samples become ready; they do not wait for each other.
- A lane with a key is shared by all pipelines that name it with the same object, which it keeps alive.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final
from weakref import WeakValueDictionary

from .caller import Caller, CallerThread, caller_var
from .cancellation import CancellationToken
from .context import StepContext
from .hooks import PipelineHook, relayed
from .interrupts import uninterrupted
from .limiter import AnyWork, Limiter, LoopWork
from .segment import Position, fuse
from .step import PlannedStep
from .threads import Work, adopt

if TYPE_CHECKING:
    from concurrent.futures import Future


C = TypeVar("C", bound=StepContext)


@final
class Lane:
    """One serial section for all who share its name and key.

    Args:
        name: The `lane` that the steps declare.
        key: The object that they write, such as a skillbook; kept alive as long as the lane.
    """

    def __init__(self, name: str, key: object | None) -> None:
        self.name = name
        self.key = key
        self._limiter = Limiter(limit=1)
        self._count = itertools.count()

    def submit(self, work: AnyWork) -> None:
        """Do `work` when all that was submitted before is done. It must not raise."""
        self._limiter.submit(work, index=next(self._count))


@final
class Turns:
    """Brings the samples of one run into a lane in input order, whatever order they arrive in."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        # Re-entrant: where the system has no thread left, the lane's work is done right here.
        self._lock = threading.RLock()
        self._next = 0
        self._arrived: dict[int, AnyWork | None] = {}

    def arrive(self, index: int, work: AnyWork) -> None:
        """Do `work` in the lane when all samples before `index` have arrived or given up.

        A sample that has given up and comes all the same (Ctrl-C may fall between the two) goes in at once.
        """
        with self._lock:
            if index > self._next:
                self._arrived[index] = work
                return
            if index == self._next:
                self._next += 1
            self._lane.submit(work)
            self._advance()

    def skip(self, index: int) -> None:
        """Let the samples behind `index` pass. Without effect if it has arrived already."""
        with self._lock:
            if index >= self._next:
                self._arrived.setdefault(index, None)
                self._advance()

    def _advance(self) -> None:
        while self._next in self._arrived:
            work = self._arrived.pop(self._next)
            self._next += 1
            if work is not None:
                self._lane.submit(work)


@final
class Sequencer:
    """The input order of the samples of one run, or of several that came one after the other.

    Args:
        lanes: The lanes that a sample passes, one for each section.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.turns = tuple(Turns(lane) for lane in lanes)
        self.issued = 0
        self._lock = threading.Lock()
        self._first = 0
        self._released: set[int] = set()

    def issue(self) -> int:
        """Number the next sample. The caller sees to it that only one thread at a time asks."""
        index = self.issued
        self.issued += 1
        return index

    def is_first(self, index: int) -> bool:
        """Whether every sample before `index` is released."""
        with self._lock:
            return index <= self._first

    def is_released(self, index: int) -> bool:
        """Whether the sample is in the background already, or never will be."""
        with self._lock:
            return index < self._first or index in self._released

    def release(self, index: int) -> None:
        """Say that the sample's foreground part is over: it is in the background, or never will be."""
        with self._lock:
            if index > self._first:
                self._released.add(index)
            elif index == self._first:
                self._first += 1
                while self._first in self._released:
                    self._released.remove(self._first)
                    self._first += 1

    def skip(self, index: int) -> None:
        """Let the samples behind `index` pass in every lane that it has not reached."""
        self.release(index)
        for turns in self.turns:
            turns.skip(index)


_lanes: WeakValueDictionary[tuple[str, int], Lane] = WeakValueDictionary()
_lanes_lock = threading.Lock()


def lane_for(name: str, key: object | None) -> Lane:
    """Return the lane that everybody with this name and this very key object shares."""
    with _lanes_lock:
        lane = _lanes.get((name, id(key)))
        if lane is None:
            lane = _lanes[name, id(key)] = Lane(name, key)
        return lane


@final
class LaneSteps(Generic[C]):
    """Neighbouring steps of one lane, of either kind.

    Args:
        steps: The steps, in order.

    Attributes:
        is_async: Whether all are asynchronous, so that the section can be awaited.
    """

    def __init__(self, steps: Sequence[PlannedStep[C]]) -> None:
        self.is_async = all(step.is_async for step in steps)
        self._segments = fuse(steps)

    def run(
        self, ctx: C, position: Position, token: CancellationToken | None = None, hooks: Sequence[PipelineHook] = ()
    ) -> C:
        """Run the steps on this thread; the asynchronous ones among them are awaited on the engine's loop."""
        for segment in self._segments:
            if segment.is_async and not hooks:  # hooks are called here, between the steps
                from .event_loop import engine_loop  # loads asyncio, which most pipelines can do without

                ctx = engine_loop.run(segment.run_async(ctx, position, token, hooks))
            else:
                ctx = segment.run(ctx, position, token, hooks)
        return ctx

    async def run_async(
        self, ctx: C, position: Position, token: CancellationToken | None = None, hooks: Sequence[PipelineHook] = ()
    ) -> C:
        """Await the steps, which must all be asynchronous."""
        for segment in self._segments:
            ctx = await segment.run_async(ctx, position, token, hooks)
        return ctx


class RunInLane(Protocol):
    """What a foreground section needs of the run of a sample; `ace.pipeline.run.Run` has it."""

    @property
    def order(self) -> Sequencer | None:
        """The input order."""

    @property
    def token(self) -> CancellationToken | None:
        """Cancels the run."""

    @property
    def hooks(self) -> tuple[PipelineHook, ...]:
        """Observers of the foreground steps."""

    @property
    def calls_hooks(self) -> bool:
        """Whether the pipeline, or a nested one, has hooks."""

    @property
    def caller(self) -> Caller | None:
        """Where hooks are called; None calls them on the worker's thread."""


@final
class LaneSegment(Generic[C]):
    """Neighbouring foreground steps of one lane, which one sample at a time passes in input order.

    Args:
        lane: The lane, shared with every pipeline that names it with the same key.
        steps: The steps of the section.
        number: Which lane section of its pipeline it is, counted from 0.
    """

    def __init__(self, lane: Lane, steps: Sequence[PlannedStep[C]], number: int) -> None:
        self._lane = lane  # kept, so that others with the same name and key find it
        self._steps = LaneSteps(steps)
        self._first_step = steps[0].name
        self._number = number

    def start(
        self, future: Future[C], ctx: C, position: Position, run: RunInLane, index: int, hooks: Sequence[PipelineHook]
    ) -> contextvars.Context:
        """Have the section run when it is the sample's turn.

        Args:
            future: Gets what the section returns. Until that has begun, it can be cancelled.
            ctx: The sample's context.
            position: Where the sample is.
            run: The run.
            index: The sample's number in the run's order.
            hooks: What observes the steps, and where that is called.

        Returns:
            At once, the context whose variables the section may set.
        """
        context = contextvars.copy_context()
        position.step_name = self._first_step

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(self._steps.run, ctx, position, run.token, hooks))
            except BaseException as error:
                future.set_exception(error)

        async def work_async(then: Callable[[Work], None]) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                then(partial(future.set_result, await self._steps.run_async(ctx, position, run.token, hooks)))
            except BaseException as error:
                then(partial(future.set_exception, error))

        def refuse(error: BaseException) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

        assert run.order is not None  # a pipeline with a lane has one
        with uninterrupted:
            turns = run.order.turns[self._number]
            turns.arrive(index, LoopWork(work_async, context, refuse) if self._steps.is_async else work)
        return context

    def pass_through(self, ctx: C, position: Position, run: RunInLane, index: int) -> C:
        """Run the section and wait for it. Ctrl-C cancels work that has not begun, and otherwise waits for its end.

        The section runs on another thread, which no Ctrl-C can interrupt. If hooks are to be called on this thread, it
        calls them while it waits.
        """
        from concurrent.futures import Future  # costs 12 ms to import, which pipelines without lanes save

        future: Future[C] = Future()
        here = CallerThread()
        future.add_done_callback(lambda _: here.end())
        hooks = run.hooks
        calls_here = run.calls_hooks and run.caller is None
        if calls_here:
            hooks = relayed(hooks, here)
            caller_var.set(here)
        try:
            context = self.start(future, ctx, position, run, index, hooks)
            here.wait()
        except BaseException:
            with uninterrupted:
                future.cancel()
            here.wait()
            raise
        finally:
            if calls_here:
                caller_var.set(None)
        ctx = future.result()
        if calls_here:
            context.run(caller_var.set, None)
        adopt(context)
        return ctx
