"""Keeping Ctrl-C out of the moments in which a sample changes hands.

Python raises `KeyboardInterrupt` between any two instructions of the main thread. Between those that take a sample out
of one place and put it into the next, that would lose the sample, and the code that waits for it would never wake.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final

_SignalHandler = Callable[[int, FrameType | None], object]


@final
class Uninterrupted:
    """A block that Ctrl-C cannot divide: what comes meanwhile is raised at its end.

    It works where `interrupts_can_wait` is around it. Blocks must be short. On other threads than the main one it does
    nothing, because those are never interrupted.
    """

    __slots__ = ("_depth", "_missed", "_thread")

    def __init__(self) -> None:
        self._thread: int | None = None
        self._depth = 0
        self._missed: Callable[[], object] | None = None

    def __enter__(self) -> None:
        if threading.get_ident() == self._thread:
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        if threading.get_ident() == self._thread:
            self._depth -= 1
            if self._missed is not None and self._depth == 0:
                missed, self._missed = self._missed, None
                missed()

    def begin(self) -> None:
        """Say that this is the main thread, and that it is in no such block."""
        self._thread = threading.get_ident()
        self._depth = 0  # where nothing defers Ctrl-C, it may have kept a block from being left

    def call(self, handle: Callable[[], object]) -> None:
        """Handle a signal now, or at the end of the block that it has come in."""
        if self._depth:
            self._missed = handle
        else:
            handle()


uninterrupted = Uninterrupted()
"""The one of the main thread."""


@final
class _Handler:
    """Has another handler of a signal wait for the end of a block that must not be divided."""

    def __init__(self, handle: _SignalHandler) -> None:
        self._handle = handle

    def __call__(self, number: int, frame: FrameType | None) -> None:
        uninterrupted.call(lambda: self._handle(number, frame))


@contextmanager
def interrupts_can_wait() -> Iterator[None]:
    """Have Ctrl-C wait for the end of `uninterrupted` blocks, and do otherwise what it does without."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import signal  # most pipelines have no use for it

    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, _Handler) or not callable(before):  # in a run already, or Ctrl-C raises nothing here
        yield
        return
    uninterrupted.begin()
    handler = _Handler(before)
    try:
        signal.signal(signal.SIGINT, handler)
        yield
    finally:
        try:
            _put_back(before, handler)
        except BaseException:  # Ctrl-C came just before it was done
            _put_back(before, handler)
            raise


def _put_back(before: _SignalHandler, handler: _Handler) -> None:
    import signal

    with uninterrupted:
        if signal.getsignal(signal.SIGINT) is handler:  # else a step has set its own
            signal.signal(signal.SIGINT, before)
