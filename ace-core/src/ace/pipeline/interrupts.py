"""Deferring Ctrl-C while it would lose a sample or the interrupt itself.

Python may raise `KeyboardInterrupt` between any two instructions of the main thread. Between those that take a sample
from one place and put it into the next, that would lose the sample, and the code that waits for it would never wake.
During a garbage collection it would lose the interrupt: Python only prints what a finalizer or a callback of the
collector raises.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final

_SignalHandler = Callable[[int, FrameType | None], object]


@final
class Uninterrupted:
    """A block that Ctrl-C cannot interrupt: the exception is raised at its end.

    It only works inside `interrupts_can_wait`. Blocks must be short. On threads other than the main one it has no
    effect, because those are never interrupted.
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
        """Note that this is the main thread, and that it is outside such blocks."""
        self._thread = threading.get_ident()
        self._depth = 0  # Ctrl-C may have prevented an exit when nothing deferred it

    def call(self, handle: Callable[[], object]) -> None:
        """Handle a signal now, or at the end of the current block."""
        if self._depth:
            self._missed = handle
        else:
            handle()


uninterrupted = Uninterrupted()
"""The one of the main thread."""


_collecting: set[int] = set()
"""The threads in which the garbage collector is running."""


def _note_collection(phase: str, info: object) -> None:
    if phase == "start":
        _collecting.add(threading.get_ident())
    else:
        _collecting.discard(threading.get_ident())


def note_collections() -> None:
    """Keep track, from now on, of the threads in which the garbage collector is running."""
    if _note_collection not in gc.callbacks:
        gc.callbacks.append(_note_collection)


def is_collecting() -> bool:
    """Whether the garbage collector is running on this thread; known only after `note_collections`."""
    return threading.get_ident() in _collecting


@final
class _Handler:
    """Defers another signal handler until it can neither interrupt a block nor be swallowed."""

    def __init__(self, handle: _SignalHandler) -> None:
        self._handle = handle

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if is_collecting() or _is_noting_a_collection(frame):
            _signal_after_collection(number)
        else:
            uninterrupted.call(lambda: self._handle(number, frame))


def _is_noting_a_collection(frame: FrameType | None) -> bool:
    """Whether the signal interrupts `_note_collection` itself."""
    while frame is not None and frame.f_code is not _note_collection.__code__:
        frame = frame.f_back
    return frame is not None


def _signal_after_collection(number: int) -> None:
    """Send the main thread the signal again as soon as its garbage collection has ended."""
    import signal

    main = threading.get_ident()

    def send_again() -> None:
        pause = threading.Event()
        pause.wait(_PAUSE)
        while main in _collecting:
            pause.wait(_PAUSE)
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, number)  # this also wakes a thread that waits for a lock
        else:
            import _thread

            _thread.interrupt_main(signal.Signals(number))

    threading.Thread(target=send_again, name="ace-ctrl-c", daemon=True).start()


_PAUSE = 0.001  # seconds between two checks whether a collection has ended


@contextmanager
def interrupts_can_wait() -> Iterator[None]:
    """Defer Ctrl-C to the end of `uninterrupted` blocks; its handler does the same as before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import signal  # most pipelines do not need it

    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, _Handler) or not callable(before):  # already in a run, or Ctrl-C raises nothing here
        yield
        return
    uninterrupted.begin()
    note_collections()
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
