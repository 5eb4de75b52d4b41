"""A limited number of places, and the line of those who wait for one."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar, final
from weakref import WeakSet

WorkT = TypeVar("WorkT")


@final
class Turn:
    """A waiter for a place, which does its work there by itself.

    Args:
        tell: Called when the place is there; must not raise.
    """

    def __init__(self, tell: Callable[[], object]) -> None:
        self.tell = tell
        self.has_place = False
        self.is_withdrawn = False


class Places(Generic[WorkT]):
    """Counts the places that are taken. Work and turns wait in one line for those that get free.

    Runs take turns in the order in which they come; of what waits for one run, the earliest sample is first.

    Args:
        limit: How many places there are.
        owner: What the limit belongs to; kept alive as long as the places.
    """

    def __init__(self, limit: int, owner: object = None) -> None:
        self.limit = limit
        self.owner = owner
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        """Start with no place taken. A forked child calls it too: its parent does the work that was waiting."""
        self._lock = threading.Lock()
        self._taken = 0
        self._turns: deque[object] = deque()  # for each that waits, its run
        self._waiting: dict[object, list[tuple[int, int, WorkT | Turn]]] = {}  # by run, each a heap
        self._came = itertools.count()

    def _take(self) -> bool:
        """Take a place if there is one, and say whether there was."""
        with self._lock:
            if self._taken >= self.limit:
                return False
            self._taken += 1
            return True

    def _take_or_wait(self, waiting: WorkT | Turn, run: object = None, index: int = 0) -> bool:
        """Take a place, or get in line. Says whether there was a place."""
        with self._lock:
            if self._taken < self.limit:
                self._taken += 1
                return True
            self._turns.append(run)
            heappush(self._waiting.setdefault(run, []), (index, next(self._came), waiting))
            return False

    def _pass_on(self) -> WorkT | Turn | None:
        """Give a place that gets free to the next in line, and say who that is."""
        with self._lock:
            while self._turns:
                run = self._turns.popleft()
                _, _, waiting = heappop(self._waiting[run])
                if not self._waiting[run]:
                    del self._waiting[run]
                if not isinstance(waiting, Turn):
                    return waiting
                if not waiting.is_withdrawn:
                    waiting.has_place = True
                    return waiting
            self._taken -= 1
            return None

    def _withdraw(self, turn: Turn) -> bool:
        """Take a turn out of the line. Says whether it has got a place meanwhile, which it has to give back."""
        with self._lock:
            turn.is_withdrawn = True
            return turn.has_place


_all: WeakSet[Places[Any]] = WeakSet()  # whatever work they do


def _forget_all() -> None:
    for places in list(_all):
        places._forget()


os.register_at_fork(after_in_child=_forget_all)
