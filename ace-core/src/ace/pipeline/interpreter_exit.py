"""Finishing background work before the interpreter exits."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Protocol
from weakref import WeakSet

from .problem_reports import log_problem

logger = logging.getLogger(__name__)


class Pending(Protocol):
    """Something that may still be at work when the interpreter exits."""

    @property
    def is_busy(self) -> bool:
        """Whether it is at work."""

    @property
    def pending(self) -> int:
        """How many samples are not done; 0 for work that is not a sample."""

    @property
    def failed(self) -> int:
        """How many samples failed so far."""

    def drain(self) -> None:
        """Block until it is not at work any more; what went wrong is not raised."""


_watched: WeakSet[Pending] = WeakSet()
_lock = threading.Lock()
_registered = False
_given_up = False


def watch(background: Pending) -> None:
    """See to it that the interpreter does not exit before `background` is empty."""
    global _registered
    with _lock:
        _watched.add(background)
        if not _registered:
            _registered = True
            _register()


def _register() -> None:
    # Pools, asyncio.to_thread and so most clients fail as soon as concurrent.futures has been told of the exit.
    # Its callback and this one are called in the reverse order of their registration: it has to be first.
    import concurrent.futures.thread  # noqa: F401  (imported for that registration)

    # threading calls these before it joins threads; there is no public name for it. The second registration
    # is for samples that a thread of the application brought in while the first was at work.
    register_early = getattr(threading, "_register_atexit", atexit.register)
    try:
        register_early(drain)
    except RuntimeError:  # the exit has already begun; the registration below still counts
        log_problem(logger, logging.DEBUG, "a pipeline was first used while the interpreter exits")
    atexit.register(drain)


def drain() -> None:
    """Wait for all background work, and say so. Ctrl-C gives up on it."""
    global _given_up
    try:
        while not _given_up and (busy := [each for each in _snapshot() if each.is_busy]):
            count = sum(each.pending for each in busy)
            if count:
                message = "the interpreter exits: waiting for %d %s in the background of a pipeline (Ctrl-C gives up)"
                log_problem(logger, logging.WARNING, message, count, "sample" if count == 1 else "samples")
            else:
                message = "the interpreter exits: waiting for the end of a run (Ctrl-C gives up)"
                log_problem(logger, logging.WARNING, message)
            failed_before = sum(each.failed for each in busy)
            for each in busy:
                each.drain()
            failed = sum(each.failed for each in busy) - failed_before
            if failed:
                message = "%d of them failed; wait_for_background() before the exit shows why"
                log_problem(logger, logging.ERROR, message, failed)
    except KeyboardInterrupt:
        _given_up = True
        count = sum(each.pending for each in _snapshot())
        message = "interrupted: %d samples in the background were not finished"
        log_problem(logger, logging.ERROR, message, count)


def _snapshot() -> list[Pending]:
    with _lock:
        return list(_watched)


def _forget_lock() -> None:
    """A forked child has nothing pending, because its parent does that, but maybe the lock of a thread that is gone."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)
