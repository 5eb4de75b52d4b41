"""Lanes: sections of a pipeline that one sample at a time passes, in input order.

Who calls what, and on which thread: workers (in the foreground) and the threads of earlier stages (in the background)
call `Turns.arrive`. The lane's limiter does the work itself, on a cached thread or on the engine's loop. A worker on a
thread waits for it in `LaneSegment.pass_through`; one on a loop awaits the future given to `LaneSegment.start`.

Invariants:

- Samples of one run enter a lane in the order of their numbers. Each number arrives in each lane or is skipped.
- Runs that share a lane enter it in the order in which their samples become ready; they do not wait for each other.
- A sample is offered by `LaneQueue` from its arrival until it enters the lane, or is skipped.
- A lane with a key is shared by all pipelines that name it with the same key object, which it keeps alive.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final
from weakref import WeakValueDictionary

from .caller import Caller, CallerThread, caller_var
from .cancellation import CancellationToken
from .context import StepContext
from .hooks import PipelineHook, relayed
from .limiter import AnyWork, Limiter, LoopWork
from .segment import Position, fuse
from .step import PlannedStep
from .threads import Work, adopt, uninterrupted

if TYPE_CHECKING:
    from concurrent.futures import Future


C = TypeVar("C", bound=StepContext)


@final
class Lane:
    """One serial section, shared by all pipelines that use its name and key.

    Args:
        name: The `lane` that the steps declare.
        key: The object that the steps write, such as a skillbook; kept alive as long as the lane.
    """

    def __init__(self, name: str, key: object | None) -> None:
        self.name = name
        self.key = key
        self.submit: Callable[[AnyWork], None] = Limiter(limit=1).submit
        """Does work after everything that was submitted before. It must not raise."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingSample:
    """A sample that waits for its turn in a lane."""

    context: StepContext
    """Its context, as it will enter the lane."""
    variables: contextvars.Context
    """A copy of its context variables. Code that works for the sample ahead of its turn has to run in it."""


class LaneQueue(Protocol):
    """The samples that wait for the lane section in which the current step is: those of its run, in input order."""

    def waiting(self, most: int) -> list[WaitingSample]:
        """Return the samples that wait now, the first ones first.

        A sample whose predecessors have not arrived waits too. Any of them may be skipped or cancelled before its turn.

        Args:
            most: The maximum number of samples.
        """

    def watched(self, arrived: Callable[[], None]) -> AbstractContextManager[None]:
        """Call a function whenever another sample begins to wait, as long as the returned context manager is open.

        Args:
            arrived: The function. It is called on the thread of the previous step; it must neither block nor raise.
        """


_queue: ContextVar[LaneQueue | None] = ContextVar("ace_lane_queue", default=None)


def lane_queue() -> LaneQueue | None:
    """Return the samples that wait behind the current one for its lane; None outside a lane.

    With it, a step in a lane can prepare what does not depend on the samples before, such as a request to a server,
    while an earlier sample is in the lane.

    Example:
        >>> from ace.pipeline import Pipeline, StepContext, lane_queue
        >>> class Write:
        ...     requires = provides = frozenset()
        ...     lane = "book"
        ...     def __call__(self, ctx):
        ...         behind = lane_queue().waiting(most=10)
        ...         return ctx.replace(metadata={"behind": [waiting.context.sample for waiting in behind]})
        >>> [result] = Pipeline([Write()]).run([StepContext("first")])
        >>> result.output.metadata["behind"]
        []
    """
    return _queue.get()


@final
class Turns:
    """Brings the samples of one run into a lane in input order, whatever order they arrive in.

    It is the `LaneQueue` of the steps in the lane.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        # Re-entrant: if no thread can be started, the lane's work is done on this one.
        self._lock = threading.RLock()
        self._next = 0
        self._arrived: dict[int, AnyWork | None] = {}
        self.offered: dict[int, tuple[StepContext, contextvars.Context]] = {}
        """The samples that wait, each with its context variables; those that have entered, or never will, are removed.

        Read without a lock, so a step may ask who waits with a lock of its own held. A sample is added before the
        watchers are read, so one who begins to watch and then asks who waits misses none.
        """
        self._watchers: tuple[Callable[[], None], ...] = ()
        self._watchers_lock = threading.Lock()

    def arrive(self, index: int, work: AnyWork, ctx: StepContext, variables: contextvars.Context) -> None:
        """Do `work` in the lane when all samples before `index` have arrived or were skipped.

        A sample that was skipped and arrives anyway (Ctrl-C may come between the two) enters at once.

        Args:
            index: The number of the sample.
            work: Its work, which has to remove it from `offered` first.
            ctx: Its context, which the steps in the lane are offered until then.
            variables: Its context variables.
        """
        self.offered[index] = ctx, variables
        with self._lock:
            if index > self._next:
                self._arrived[index] = work
            else:
                if index == self._next:
                    self._next += 1
                self._lane.submit(work)
                if self._arrived:
                    self._advance()
        for arrived in self._watchers:
            arrived()

    def waiting(self, most: int) -> list[WaitingSample]:
        """Return the samples that wait now; see `LaneQueue`."""
        # A dict is copied in one step. Listing its items allocates, which may start the garbage collector, during which
        # other threads may add samples.
        first = nsmallest(most, self.offered.copy().items(), key=itemgetter(0))
        return [WaitingSample(ctx, variables.copy()) for _, (ctx, variables) in first]

    @contextmanager
    def watched(self, arrived: Callable[[], None]) -> Iterator[None]:
        """Call a function whenever another sample begins to wait; see `LaneQueue`."""
        with self._watchers_lock:
            self._watchers += (arrived,)
        try:
            yield
        finally:
            with self._watchers_lock:
                watchers = list(self._watchers)
                watchers.remove(arrived)
                self._watchers = tuple(watchers)

    def skip(self, index: int) -> None:
        """Let the samples behind `index` pass. It has no effect if `index` has already arrived."""
        self.offered.pop(index, None)
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
    """The input order of the samples of one run, or of several consecutive runs.

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
        """Return the number of the next sample. Only one thread at a time may call it."""
        index = self.issued
        self.issued += 1
        return index

    def is_first(self, index: int) -> bool:
        """Whether every sample before `index` is released."""
        with self._lock:
            return index <= self._first

    def is_released(self, index: int) -> bool:
        """Whether the sample has entered the background, or never will."""
        with self._lock:
            return index < self._first or index in self._released

    def release(self, index: int) -> None:
        """Note that the sample has entered the background, or never will."""
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
    """Return the lane with this name and this key object; all pipelines that ask for it share it."""
    with _lanes_lock:
        lane = _lanes.get((name, id(key)))
        if lane is None:
            lane = _lanes[name, id(key)] = Lane(name, key)
        return lane


@final
class LaneSteps(Generic[C]):
    """Adjacent steps of one lane, of either kind.

    Args:
        steps: The steps, in order.
        is_end: Whether nothing else will run with the context variables of the sample. Then `lane_queue` need not be
            reset, which every sample would pay for.

    Attributes:
        is_async: Whether all are asynchronous, so that the section can be awaited.
    """

    def __init__(self, steps: Sequence[PlannedStep[C]], *, is_end: bool = False) -> None:
        self.is_async = all(step.is_async for step in steps)
        self._is_end = is_end
        self._segments = fuse(steps)

    def run(
        self,
        turns: Turns,
        index: int,
        ctx: C,
        position: Position,
        token: CancellationToken | None = None,
        hooks: Sequence[PipelineHook] = (),
    ) -> C:
        """Run the steps on this thread, which waits while the engine's loop runs asynchronous ones."""
        turns.offered.pop(index, None)
        outer = _queue.set(turns)
        try:
            for segment in self._segments:
                if segment.is_async and not hooks:  # hooks are called here, between the steps
                    from .event_loop import engine_loop  # loads asyncio, which most pipelines do not need

                    ctx = engine_loop.run(segment.run_async(ctx, position, token, hooks))
                else:
                    ctx = segment.run(ctx, position, token, hooks)
        finally:
            if not self._is_end:
                _queue.reset(outer)
        return ctx

    async def run_async(
        self,
        turns: Turns,
        index: int,
        ctx: C,
        position: Position,
        token: CancellationToken | None = None,
        hooks: Sequence[PipelineHook] = (),
    ) -> C:
        """Await the steps, which must all be asynchronous."""
        turns.offered.pop(index, None)
        outer = _queue.set(turns)
        try:
            for segment in self._segments:
                ctx = await segment.run_async(ctx, position, token, hooks)
        finally:
            if not self._is_end:
                _queue.reset(outer)
        return ctx


class RunInLane(Protocol):
    """What a foreground section needs from the run of a sample; `ace.pipeline.run.Run` provides it."""

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
    """Adjacent foreground steps of one lane, which one sample at a time passes in input order.

    Args:
        lane: The lane, shared with every pipeline that names it with the same key.
        steps: The steps of the section.
        number: The position of this lane section among those of its pipeline, from 0.
    """

    def __init__(self, lane: Lane, steps: Sequence[PlannedStep[C]], number: int) -> None:
        self._lane = lane  # keeps it alive, so that `lane_for` finds it
        self._steps = LaneSteps(steps)
        self._first_step = steps[0].name
        self._number = number

    def start(
        self, future: Future[C], ctx: C, position: Position, run: RunInLane, index: int, hooks: Sequence[PipelineHook]
    ) -> contextvars.Context:
        """Run the section when it is the sample's turn.

        Args:
            future: Receives what the section returns. It can be cancelled until the section begins.
            ctx: The sample's context.
            position: Where the sample is.
            run: The run.
            index: The sample's number in the run's order.
            hooks: The observers of the steps.

        Returns:
            The context (of variables) in which the section will run, at once.
        """
        assert run.order is not None  # a pipeline with a lane has one
        turns = run.order.turns[self._number]
        context = contextvars.copy_context()
        position.step_name = self._first_step

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(self._steps.run, turns, index, ctx, position, run.token, hooks))
            except BaseException as error:
                future.set_exception(error)

        async def work_async(then: Callable[[Work], None]) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                steps = self._steps.run_async(turns, index, ctx, position, run.token, hooks)
                then(partial(future.set_result, await steps))
            except BaseException as error:
                then(partial(future.set_exception, error))

        def refuse(error: BaseException) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

        with uninterrupted:
            entering = LoopWork(work_async, context, refuse) if self._steps.is_async else work
            turns.arrive(index, entering, ctx, context)
        return context

    def pass_through(self, ctx: C, position: Position, run: RunInLane, index: int) -> C:
        """Run the section and wait for it. Ctrl-C cancels a section that has not begun, and else waits for its end.

        The section runs on another thread, which Ctrl-C cannot interrupt. If hooks have to be called on this thread, it
        calls them while it waits.
        """
        from concurrent.futures import Future  # takes 12 ms to import; only pipelines with lanes need it

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
