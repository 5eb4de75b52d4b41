"""Threads that are kept for the next piece of work, and context variables that go with a sample from thread to thread.

Starting a thread costs some 30 microseconds and handing work to a waiting one some 5. So whatever in the engine
needs a thread for a moment borrows one here. A thread that has had nothing to do for a while ends.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import final

from .errors import log_problem
from .interrupts import uninterrupted

logger = logging.getLogger(__name__)


def adopt(context: contextvars.Context) -> None:
    """Set here what was set in another context, in which a part of the sample's work ran meanwhile.

    A context cannot be lent instead: it can be entered once at a time, and an event loop enters that of a task
    whenever it likes.
    """
    current = contextvars.copy_context()
    for variable, value in context.items():
        if current.get(variable, context) is not value:
            variable.set(value)


Work = Callable[[], None]

_IDLE_SECONDS = 5.0


def _no_report() -> None:
    """Report to no one."""


@final
class ThreadCache:
    """Runs each piece of work on a thread of its own at once, and keeps the thread for the next.

    The threads are daemons: what must not be lost at the interpreter's exit is waited for in
    `interpreter_exit`, which a second Ctrl-C can then cut short.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Start with no threads. A forked child calls it too: it has inherited none of the parent's."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[tuple[Work, Work] | None] = SimpleQueue()
        self._ended: SimpleQueue[threading.Thread] = SimpleQueue()
        self._idle = 0
        self._started = 0

    def start(self, work: Work, report: Work = _no_report) -> None:
        """Run `work`, then `report`, on another thread, now. Neither must raise.

        Args:
            work: What is to be done.
            report: Reports that it is done, and does nothing else. It is called when the thread counts as
                free already, so that work started in response gets the same thread again.

        Raises:
            RuntimeError: If the system has no thread left to give.
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
        """End the threads that have nothing to do, and wait until they are gone."""
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
            except Exception as error:  # a loop that its owner has closed: nothing waits there any more
                message = "the end of work of the pipeline engine could not be reported"
                log_problem(logger, logging.ERROR, message, error=error)
            del task, work, report  # what they hold must not live on while this thread waits
            try:
                task = self._queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                if self._retire():
                    return
                task = self._queue.get()
        self._ended.put(threading.current_thread())

    def _retire(self) -> bool:
        """Leave the idle threads, unless this one has just been assigned work, which is on the way."""
        with self._lock:
            if self._idle == 0:
                return False
            self._idle -= 1
            return True


threads = ThreadCache()
"""The process's kept threads."""

os.register_at_fork(after_in_child=threads._forget)
