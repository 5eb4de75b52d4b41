"""Where background work waits for one of a limited number of places."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, final
from weakref import WeakValueDictionary

from .places import Places, Turn
from .planned_step import PlannedStep
from .threads import Work, threads

if TYPE_CHECKING:
    import asyncio

AsyncWork = Callable[[], Coroutine[Any, Any, Work]]


@final
class Station(Places[Work]):
    """Does plain work, at most `limit` pieces at once.

    It holds a kept thread only while it has work. The work must not raise. Who has a thread already can `enter`
    and `leave` instead; that takes a place as work does.
    """

    def _forget(self) -> None:
        super()._forget()
        self._servers: set[int] = set()

    def submit(self, work: Work, run: object = None, index: int = 0) -> None:
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

    def leave(self) -> None:
        """Give back a place."""
        following = self._pass_on()
        if isinstance(following, Turn):
            following.tell()
        elif following is not None:
            self._start(following)

    def _start(self, work: Work) -> None:
        try:
            threads.start(lambda: self._serve(work))
        except RuntimeError:  # the system has no thread left: the caller's own does the work
            self._serve(work)

    def _serve(self, work: Work) -> None:
        ident = threading.get_ident()
        is_outermost = ident not in self._servers
        self._servers.add(ident)
        while True:
            work()
            following = self._pass_on()
            if following is None or isinstance(following, Turn):
                break
            work = following
        if is_outermost:
            self._servers.discard(ident)
        if following is not None:
            following.tell()


@final
class AsyncStation(Places[tuple[AsyncWork, Context]]):
    """Does asynchronous work on the engine's loop, at most `limit` pieces at once.

    Each piece returns what is to be called when it has ended. Neither must raise.
    """

    def _forget(self) -> None:
        super()._forget()
        self._tasks: set[asyncio.Task[Work]] = set()  # the loop itself holds its tasks only weakly

    def submit(self, work: AsyncWork, context: Context, run: object = None, index: int = 0) -> None:
        """Await `work` in `context` as soon as there is a place for it.

        Args:
            work: What is to be done.
            context: The context variables that it sees.
            run: What the index counts in: work of another one has its own turns.
            index: The place in the order of the run.

        Raises:
            RuntimeError: If the loop has to be started and the system has no thread left to give.
        """
        from .event_loop import engine_loop

        loop = engine_loop.loop
        if self._take_or_wait((work, context), run, index):
            loop.call_soon_threadsafe(self._begin, work, context)

    async def enter(self) -> None:
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
        """Give back a place. Must be called on a running loop."""
        following = self._pass_on()
        if isinstance(following, Turn):
            following.tell()
        elif following is not None:
            self._begin(*following)

    def _begin(self, work: AsyncWork, context: Context) -> None:
        import asyncio

        task = asyncio.get_running_loop().create_task(work(), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._go_on)

    def _go_on(self, ended: asyncio.Task[Work]) -> None:
        self._tasks.discard(ended)
        ended.result()()
        self.leave()


def _set(here: asyncio.Future[None]) -> None:
    if not here.done():
        here.set_result(None)


_shared: WeakValueDictionary[int, Station | AsyncStation] = WeakValueDictionary()
_shared_lock = threading.Lock()


def station_for(step: PlannedStep[Any]) -> Station | AsyncStation:
    """Return the station of a step: its class's, or its own where the instance has a limit of its own.

    Two pipelines with steps of one class get the same station, so that the limit holds for the whole process.
    """
    owner = step.limit_owner
    kind = AsyncStation if step.is_async else Station
    with _shared_lock:
        station = _shared.get(id(owner))
        if station is None:
            station = _shared[id(owner)] = kind(step.max_workers, owner)
        station.limit = step.max_workers
        return station


def _forget_lock() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)
