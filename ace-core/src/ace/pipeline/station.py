"""Where background work waits for one of a limited number of places."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, final
from weakref import WeakSet, WeakValueDictionary

from .planned_step import PlannedStep
from .threads import Work, threads

if TYPE_CHECKING:
    import asyncio

AsyncWork = Callable[[], Coroutine[Any, Any, Work]]


@final
class Station:
    """Does plain work, at most `limit` pieces at once.

    Runs take turns in the order in which their work arrives; of the work of one run the earliest sample is done
    first. A later stage that needs the input order then waits less.

    A station holds a kept thread only while it has work. The work must not raise.

    Args:
        limit: How many pieces of work may be under way at once.
        owner: What the limit belongs to; kept alive as long as the station.
    """

    def __init__(self, limit: int, owner: object = None) -> None:
        self.limit = limit
        self.owner = owner
        self._forget()
        _stations.add(self)

    def _forget(self) -> None:
        """Start empty. A forked child calls it too: its parent does the work that was waiting."""
        self._lock = threading.Lock()
        self._turns: deque[object] = deque()  # for each piece of waiting work, its run
        self._waiting: dict[object, list[tuple[int, Work]]] = {}  # by run, each a heap
        self._serving = 0

    def submit(self, work: Work, run: object = None, index: int = 0) -> None:
        """Do `work` as soon as there is a place for it.

        Args:
            work: What is to be done.
            run: What the index counts in: work of another one has its own turns.
            index: The place in the order of the run; no other waiting work of it has the same.
        """
        with self._lock:
            if self._serving >= self.limit:
                self._turns.append(run)
                heappush(self._waiting.setdefault(run, []), (index, work))
                return
            self._serving += 1
        try:
            threads.start(lambda: self._serve(work))
        except RuntimeError:  # the system has no thread left: the caller's own does the work
            self._serve(work)

    def _serve(self, work: Work) -> None:
        while True:
            work()
            with self._lock:
                if not self._turns:
                    self._serving -= 1
                    return
                run = self._turns.popleft()
                _, work = heappop(self._waiting[run])
                if not self._waiting[run]:
                    del self._waiting[run]


@final
class AsyncStation:
    """Does asynchronous work on the engine's loop, at most `limit` pieces at once.

    Each piece returns what is to be called when it has ended. Neither must raise.

    Args:
        limit: How many pieces of work may be under way at once.
        owner: What the limit belongs to; kept alive as long as the station.
    """

    def __init__(self, limit: int, owner: object = None) -> None:
        self.limit = limit
        self.owner = owner
        self._forget()
        _stations.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[AsyncWork, Context]] = deque()
        self._serving = 0
        self._tasks: set[asyncio.Task[Work]] = set()  # the loop itself holds its tasks only weakly

    def submit(self, work: AsyncWork, context: Context) -> None:
        """Await `work` in `context` as soon as there is a place for it.

        Raises:
            RuntimeError: If the loop has to be started and the system has no thread left to give.
        """
        from .event_loop import engine_loop

        loop = engine_loop.loop
        with self._lock:
            if self._serving >= self.limit:
                self._waiting.append((work, context))
                return
            self._serving += 1
        loop.call_soon_threadsafe(self._begin, work, context)

    def _begin(self, work: AsyncWork, context: Context) -> None:
        import asyncio

        task = asyncio.get_running_loop().create_task(work(), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._go_on)

    def _go_on(self, ended: asyncio.Task[Work]) -> None:
        self._tasks.discard(ended)
        ended.result()()
        with self._lock:
            if not self._waiting:
                self._serving -= 1
                return
            work, context = self._waiting.popleft()
        self._begin(work, context)


_stations: WeakSet[Station | AsyncStation] = WeakSet()
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


def _forget_all() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for station in list(_stations):
        station._forget()


os.register_at_fork(after_in_child=_forget_all)
