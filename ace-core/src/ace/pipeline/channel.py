"""A bounded hand-over of results from the workers of a stream to its consumer."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar, final

from .blocking import may_block_loop
from .waiting import Changes

T = TypeVar("T")


@final
class Channel(Generic[T]):
    """Keeps few items: who puts one more than `capacity` waits until the consumer has taken some.

    Example:
        >>> channel = Channel[int](capacity=2)
        >>> channel.put(1)
        >>> channel.end()
        >>> list(channel)
        [1]
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._lock = threading.RLock()  # the garbage collector may close a stream while it is held
        self._changes = Changes(self._lock)
        self._ended = False
        self._abandoned = False

    def put(self, item: T) -> None:
        """Hand over an item; wait while the channel is full. Dropped if the consumer has gone away."""
        while not self.put_at_once(item):
            self._changes.wait_until(self._has_room)

    def put_at_once(self, item: T) -> bool:
        """Hand over an item if there is room for it, and say whether there was."""
        with self._lock:
            if not self._has_room():
                return False
            if not self._abandoned:
                self._items.append(item)
                self._changes.tell()
            return True

    def _has_room(self) -> bool:
        return len(self._items) < self._capacity or self._abandoned

    def end(self) -> None:
        """Say that no more items come."""
        with self._lock:
            self._ended = True
            self._changes.tell()

    def abandon(self) -> None:
        """Say that no more items will be taken."""
        with self._lock:
            self._abandoned = True
            self._items.clear()
            self._changes.tell()

    def wait_until_ended(self) -> None:
        """Wait until no more items will be put."""
        with may_block_loop():
            self._changes.wait_until(lambda: self._ended)

    def __iter__(self) -> Channel[T]:
        return self

    def __next__(self) -> T:
        with may_block_loop():
            self._changes.wait_until(lambda: bool(self._items) or self._ended or self._abandoned)
        with self._lock:
            if not self._items:  # abandoned perhaps only now
                raise StopIteration
            item = self._items.popleft()
            self._changes.tell()
            return item
