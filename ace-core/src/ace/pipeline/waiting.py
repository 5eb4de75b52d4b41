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
class Happening:
    """Something that happens once, like `threading.Event`. One thread may wait for it.

    Example:
        >>> ended = Happening()
        >>> threading.Thread(target=ended.happen).start()
        >>> ended.wait()
    """

    __slots__ = ("_bell", "_has_happened")

    def __init__(self) -> None:
        self._has_happened = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def happen(self) -> None:
        """Wake who waits."""
        self._has_happened = True
        self._bell.release()

    def wait(self) -> None:
        """Wait until it happens."""
        while not self._has_happened:
            self._bell.acquire()


@final
class Changes:
    """Who waits for a change of what a lock protects, like `threading.Condition`.

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

    __slots__ = ("_bells", "lock")

    def __init__(self, lock: threading.Lock | threading.RLock) -> None:
        self.lock = lock
        self._bells: list[threading.Lock] = []

    @property
    def waiting(self) -> int:
        """How many wait. Who was interrupted counts until the next change."""
        return len(self._bells)

    def tell(self) -> None:
        """Have all who wait look again. The lock must be held."""
        if self._bells:
            bells, self._bells = self._bells, []
            for bell in bells:
                bell.release()

    def wait_until(self, is_true: Callable[[], bool], timeout: float | None = None) -> bool:
        """Block until something is true. The lock must not be held.

        Args:
            is_true: Asked under the lock, now and after each change.
            timeout: Seconds to wait at most; None waits for ever.

        Returns:
            Whether it became true in time.
        """
        end = None if timeout is None else monotonic() + timeout
        while True:
            with self.lock:
                if is_true():
                    return True
                bell = threading.Lock()
                bell.acquire()
                self._bells.append(bell)
            if end is None:
                bell.acquire()
            elif not bell.acquire(timeout=min(max(end - monotonic(), 0), threading.TIMEOUT_MAX)):
                with self.lock:
                    if bell in self._bells:
                        self._bells.remove(bell)
                    return is_true()
