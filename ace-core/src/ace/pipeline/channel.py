"""A bounded hand-over of results from the workers of a stream to its consumer."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar, final

from .blocking import may_block_loop

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
        self._changed = threading.Condition()
        self._ended = False
        self._abandoned = False

    def put(self, item: T) -> None:
        """Hand over an item; wait while the channel is full. Dropped if the consumer has gone away."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < self._capacity or self._abandoned)
            if not self._abandoned:
                self._items.append(item)
                self._changed.notify_all()

    def put_at_once(self, item: T) -> bool:
        """Hand over an item if there is room for it, and say whether there was."""
        with self._changed:
            if len(self._items) >= self._capacity and not self._abandoned:
                return False
            if not self._abandoned:
                self._items.append(item)
                self._changed.notify_all()
            return True

    def end(self) -> None:
        """Say that no more items come."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Say that nobody takes items any more."""
        with self._changed:
            self._abandoned = True
            self._items.clear()
            self._changed.notify_all()

    def wait_until_ended(self) -> None:
        """Wait until nobody puts items any more."""
        with may_block_loop(), self._changed:
            self._changed.wait_for(lambda: self._ended)

    def __iter__(self) -> Channel[T]:
        return self

    def __next__(self) -> T:
        with may_block_loop(), self._changed:
            self._changed.wait_for(lambda: bool(self._items) or self._ended or self._abandoned)
            if not self._items:
                raise StopIteration
            item = self._items.popleft()
            self._changed.notify_all()
            return item
