"""Where background work waits for one of a limited number of places."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, final
from weakref import WeakValueDictionary

from .places import Places, Turn
from .planned_step import PlannedStep
from .threads import Work, threads

if TYPE_CHECKING:
    import asyncio


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoopWork:
    """Work that is awaited on the engine's loop."""

    run: Callable[[Callable[[Work], None]], Coroutine[Any, Any, None]]
    """Does it, and tells the function that it gets what is to be called when its task has ended. None must raise."""

    context: Context
    """The context variables that it sees, and may set."""

    refuse: Callable[[BaseException], None]
    """Called instead if the loop has to be started and the system has no thread left to give. Must not raise."""


AnyWork: TypeAlias = Work | LoopWork


@final
class Station(Places[AnyWork]):
    """Does work, at most `limit` pieces at once: plain work on kept threads, other work on the engine's loop.

    It holds a thread only while it has plain work, which must not raise. Who does its work by itself can `enter` and
    `leave` instead; that takes a place as work does.
    """

    def _forget(self) -> None:
        super()._forget()
        self._servers: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds its tasks only weakly

    def submit(self, work: AnyWork, run: object = None, index: int = 0) -> None:
        """Do `work` as soon as there is a place for it.

        Args:
            work: What is to be done.
            run: What the index counts in: work of another one has its own turns.
            index: The place in the order of the run.
        """
        if self._take_or_wait(work, run, index):
            self._start(work)

    def enter(self) -> bool:
        """Take a place, and wait for it if there is none.

        Returns:
            Whether one was taken, which has to be given back with `leave`. None is needed on a thread that serves
            here: where the system has no thread left, it does what comes after its work before it leaves.
        """
        if threading.get_ident() in self._servers:
            return False
        if self._take():
            return True
        here = threading.Event()
        turn = Turn(here.set)
        if not self._take_or_wait(turn):
            try:
                here.wait()
            except BaseException:
                if self._withdraw(turn):
                    self.leave()
                raise
        return True

    async def enter_async(self) -> None:
        """Take a place, and wait for it if there is none, without blocking the loop."""
        import asyncio

        if self._take():
            return
        loop = asyncio.get_running_loop()
        here: asyncio.Future[None] = loop.create_future()
        turn = Turn(lambda: loop.call_soon_threadsafe(_set, here))
        if not self._take_or_wait(turn):
            try:
                await here
            except BaseException:
                if self._withdraw(turn):
                    self.leave()
                raise

    def leave(self) -> None:
        """Give back a place."""
        self._start(self._pass_on())

    def _start(self, following: AnyWork | Turn | None) -> None:
        work = self._hand_over(following)
        if work is None:
            return
        try:
            threads.start(lambda: self._serve(work))
        except RuntimeError:  # the system has no thread left: the caller's own does the work
            self._serve(work)

    def _hand_over(self, following: AnyWork | Turn | None) -> Work | None:
        """Hand the place to who does not need a thread for it. Returns what does."""
        if isinstance(following, Turn):
            following.tell()
            return None
        if not isinstance(following, LoopWork):
            return following
        from .event_loop import engine_loop

        try:
            engine_loop.loop.call_soon_threadsafe(self._begin, following)
        except RuntimeError as error:
            return partial(following.refuse, error)
        return None

    def _serve(self, work: Work) -> None:
        ident = threading.get_ident()
        is_outermost = ident not in self._servers
        self._servers.add(ident)
        following: Work | None = work
        while following is not None:
            following()
            following = self._hand_over(self._pass_on())
        if is_outermost:
            self._servers.discard(ident)

    def _begin(self, work: LoopWork) -> None:
        import asyncio

        ends: list[Work] = []  # not what the task returns, which a step would take away that cancels its own task
        task = asyncio.get_running_loop().create_task(work.run(ends.append), context=work.context)
        self._tasks.add(task)
        task.add_done_callback(partial(self._go_on, ends))

    def _go_on(self, ends: list[Work], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        for end in ends:
            end()
        following = self._pass_on()
        if isinstance(following, LoopWork):
            self._begin(following)
        else:
            self._start(following)


def _set(here: asyncio.Future[None]) -> None:
    if not here.done():
        here.set_result(None)


_shared: WeakValueDictionary[int, Station] = WeakValueDictionary()
_shared_lock = threading.Lock()


def station_for(step: PlannedStep[Any]) -> Station:
    """Return the station of a step: its class's, or its own where the instance has a limit of its own.

    Two pipelines with steps of one class get the same station, so that the limit holds for the whole process.
    """
    owner = step.limit_owner
    with _shared_lock:
        station = _shared.get(id(owner))
        if station is None:
            station = _shared[id(owner)] = Station(step.max_workers, owner)
        station.limit = step.max_workers
        return station


def _forget_lock() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)
