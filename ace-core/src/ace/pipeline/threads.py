"""Cached threads, how they wait for each other, and how Ctrl-C is deferred.

Starting a thread takes some 30 microseconds, handing work to a waiting one some 5. So all code of the engine that needs
a thread for a moment gets it here. A thread that has been idle for a while ends. Context variables follow a sample from
thread to thread.

Ctrl-C may interrupt the main thread at any moment, also while it waits. `threading.Condition`, and everything built on
it, may then lose its lock or never release it. With `Event` and `Changes`, a waiting thread only ever acquires a lock
of its own.

Python may raise `KeyboardInterrupt` between any two instructions of the main thread. Between those that take a sample
from one place and put it into the next, that would lose the sample, and the code that waits for it would never wake.
During a garbage collection it would lose the interrupt: Python only prints what a finalizer or a callback of the
collector raises. So inside `interrupts_can_wait`, Ctrl-C is deferred to the end of such a block, or of the collection.
"""

from __future__ import annotations

import contextvars
import gc
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType
from typing import final

from .errors import log_problem

logger = logging.getLogger(__name__)


def adopt(context: contextvars.Context) -> None:
    """Set the variables here that differ in another context, in which a part of the sample's work has run.

    The other thread cannot run in this context itself: a context can be entered only once at a time, and an event loop
    may enter that of a task at any moment.
    """
    current = contextvars.copy_context()
    for variable, value in context.items():
        if current.get(variable, context) is not value:
            variable.set(value)


Work = Callable[[], None]

_IDLE_SECONDS = 5.0


def _no_report() -> None:
    """The default of `report`: do nothing."""


@final
class ThreadCache:
    """Runs each piece of work on a thread of its own at once, and keeps the thread for the next one.

    The threads are daemons. `ace.pipeline.background` waits, at the interpreter's exit, for the work that must not be
    lost; Ctrl-C ends that wait.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Start with no threads. A forked child calls it too, because it does not inherit the parent's threads."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[tuple[Work, Work] | None] = SimpleQueue()
        self._ended: SimpleQueue[threading.Thread] = SimpleQueue()
        self._idle = 0
        self._started = 0

    def start(self, work: Work, report: Work = _no_report) -> None:
        """Run `work`, then `report`, on another thread, now. Neither must raise.

        Args:
            work: The work.
            report: Reports that it is done, and does nothing else. The thread already counts as idle when it is called,
                so that work started in response gets the same thread.

        Raises:
            RuntimeError: If no thread can be started.
        """
        with uninterrupted:
            with self._lock:
                waiting = self._idle > 0
                if waiting:
                    self._idle -= 1
                else:
                    self._started += 1
                    number = self._started
            if waiting:
                self._queue.put((work, report))
            else:
                threading.Thread(
                    target=self._serve, args=((work, report),), name=f"ace-pipeline-{number}", daemon=True
                ).start()

    def release(self) -> None:
        """End the idle threads, and wait until they have ended."""
        with self._lock:
            count, self._idle = self._idle, 0
        for _ in range(count):
            self._queue.put(None)
        for _ in range(count):
            self._ended.get().join()

    def _serve(self, task: tuple[Work, Work] | None) -> None:
        while task is not None:
            work, report = task
            try:
                work()
            except BaseException as error:
                message = "work of the pipeline engine raised; please report this"
                log_problem(logger, logging.ERROR, message, error=error)
            with self._lock:
                self._idle += 1
            try:
                report()
            except Exception as error:  # such as a loop that has been closed, so nothing waits on it
                message = "the end of work of the pipeline engine could not be reported"
                log_problem(logger, logging.ERROR, message, error=error)
            del task, work, report  # an idle thread must not keep their objects alive
            try:
                task = self._queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                if self._retire():
                    return
                task = self._queue.get()
        self._ended.put(threading.current_thread())

    def _retire(self) -> bool:
        """Leave the idle threads, unless work for this one is already on its way. Returns whether it has left."""
        with self._lock:
            if self._idle == 0:
                return False
            self._idle -= 1
            return True


threads = ThreadCache()
"""The cached threads of the process."""

os.register_at_fork(after_in_child=threads._forget)


@final
class Event:
    """Like `threading.Event`, for something that happens once. One thread may wait for it; any may set it.

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
        """Wake the waiting thread. Later calls have no effect; a signal handler may call it too."""
        self._is_set = True
        try:
            self._bell.release()
        except RuntimeError:  # another thread has just done it
            return

    def wait(self) -> None:
        """Wait until it is set."""
        while not self._is_set:
            self._bell.acquire()

    def wait_for(self, seconds: float) -> bool:
        """Wait until it is set, at most this long. Returns whether it is set."""
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
        """Wake the thread. A second call does no harm, because the first one may have been interrupted."""
        if self._bell.locked():
            self._bell.release()
        self.is_woken = True

    def wait(self, end: float | None) -> bool:
        """Wait until the thread is woken, or until `end`. Returns whether it was woken."""
        if end is None:
            return self._bell.acquire()
        return self._bell.acquire(timeout=min(max(end - monotonic(), 0), threading.TIMEOUT_MAX))


@final
class Changes:
    """Wakes threads that wait for a change of what a lock protects, like `threading.Condition`.

    A change wakes only the threads whose predicate has become true; waking others would cost working threads the GIL.

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

    __slots__ = ("lock", "waiters")

    def __init__(self, lock: threading.Lock | threading.RLock) -> None:
        self.lock = lock
        self.waiters: list[_Waiting] = []
        """Those who wait. Code that makes a change for each sample only calls `tell` if there are any."""

    @property
    def waiting(self) -> int:
        """How many threads wait. A thread that was interrupted counts until its predicate becomes true."""
        return len(self.waiters)

    def tell(self) -> None:
        """Wake the threads whose predicate is true now. The lock must be held."""
        if not self.waiters:
            return
        for waiter in tuple(self.waiters):
            if waiter.is_true():
                waiter.wake()
        self.waiters = [waiter for waiter in self.waiters if not waiter.is_woken]

    def wait_until(self, is_true: Callable[[], bool], timeout: float | None = None) -> bool:
        """Block until a predicate is true. The lock must not be held.

        Args:
            is_true: The predicate. It is called under the lock, now and by the code that makes each change, and must
                have no side effects.
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
                self.waiters.append(waiter)
            if not waiter.wait(end):
                with self.lock:
                    self.waiters = [other for other in self.waiters if other is not waiter]
                    return is_true()


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
