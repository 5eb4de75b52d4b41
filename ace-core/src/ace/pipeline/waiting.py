"""Waiting that Ctrl-C may interrupt at any moment.

`threading.Condition`, and all that is made of it, may keep its lock or lose it when the main thread is interrupted in
the wrong moment. Here who waits is only ever inside the acquiring of a lock of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import final


@final
class Event:
    """Something that happens once, like `threading.Event`. One thread may wait for it, several may say that it happens.

    Example:
        >>> ended = Event()
        >>> threading.Thread(target=ended.set).start()
        >>> ended.wait()
    """

    __slots__ = ("_bell", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def set(self) -> None:
        """Wake the waiting thread. Without effect after the first time; a signal handler may call it too."""
        self._is_set = True
        try:
            self._bell.release()
        except RuntimeError:  # another thread has just done it
            return

    def wait(self) -> None:
        """Wait until it happens."""
        while not self._is_set:
            self._bell.acquire()

    def wait_for(self, seconds: float) -> bool:
        """Wait until it happens, or that long. Returns whether it has happened."""
        return self._is_set or self._bell.acquire(timeout=seconds) or self._is_set


@final
class _Waiting:
    """A thread that waits until something is true."""

    __slots__ = ("_bell", "is_true", "is_woken")

    def __init__(self, is_true: Callable[[], bool]) -> None:
        self.is_true = is_true
        self.is_woken = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def wake(self) -> None:
        """Wake it. That may be done again, because who does it may be interrupted half-way."""
        if self._bell.locked():
            self._bell.release()
        self.is_woken = True

    def wait(self, end: float | None) -> bool:
        """Wait until it is woken, or until `end`. Says which."""
        if end is None:
            return self._bell.acquire()
        return self._bell.acquire(timeout=min(max(end - monotonic(), 0), threading.TIMEOUT_MAX))


@final
class Changes:
    """Who waits for a change of what a lock protects, like `threading.Condition`.

    A change wakes only those for whom it makes true what they wait for: others would take the interpreter's lock from
    those who are at work.

    Args:
        lock: The lock.

    Example:
        >>> items: list[int] = []
        >>> changes = Changes(threading.Lock())
        >>> changes.wait_until(lambda: bool(items), timeout=0)
        False
        >>> with changes.lock:
        ...     items.append(1)
        ...     changes.tell()
        >>> changes.wait_until(lambda: bool(items))
        True
    """

    __slots__ = ("_waiters", "lock")

    def __init__(self, lock: threading.Lock | threading.RLock) -> None:
        self.lock = lock
        self._waiters: list[_Waiting] = []

    @property
    def waiting(self) -> int:
        """How many wait. Who was interrupted counts until what it waited for is true."""
        return len(self._waiters)

    def tell(self) -> None:
        """Wake those for whom it is true now. The lock must be held."""
        if not self._waiters:
            return
        for waiter in tuple(self._waiters):
            if waiter.is_true():
                waiter.wake()
        self._waiters = [waiter for waiter in self._waiters if not waiter.is_woken]

    def wait_until(self, is_true: Callable[[], bool], timeout: float | None = None) -> bool:
        """Block until something is true. The lock must not be held.

        Args:
            is_true: Asked under the lock, now and at each change, by the code that makes the change. It must not change
                anything.
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Returns:
            Whether it became true in time.
        """
        end = None if timeout is None else monotonic() + timeout
        while True:
            with self.lock:
                if is_true():
                    return True
                waiter = _Waiting(is_true)
                self._waiters.append(waiter)
            if not waiter.wait(end):
                with self.lock:
                    self._waiters = [each for each in self._waiters if each is not waiter]
                    return is_true()
