"""Locks: one process at a time watches a log for a skillbook, and one at a time learns from attempts into it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ace._internal.atomic_file import make_folder, open_private, passing_lock
from ace.pipeline import CancellationToken

__all__ = ["learning_turn", "running_watcher", "watching"]

_PAUSE: Final = 0.1
"""The time between two looks at a lock that another process holds, in seconds."""


@contextmanager
def watching(log: str | Path, skillbook: str) -> Iterator[bool]:
    """Try to acquire the lock of the process that watches a log for a skillbook, without waiting.

    The lock is on a hidden file beside the log. The system releases it when the process ends for any reason.

    Args:
        log: The file of the log, which need not exist.
        skillbook: The location of the skillbook.

    Yields:
        Whether the lock is held; if not, another process watches the log.

    Raises:
        OSError: The lock cannot be created.

    Example:
        >>> import tempfile
        >>> log = Path(tempfile.mkdtemp()) / "execution_traces.jsonl"
        >>> with watching(log, "skills.db") as is_mine, watching(log, "skills.db") as is_others:
        ...     is_mine, is_others, running_watcher(log, "skills.db") == os.getpid()
        (True, False, True)
        >>> running_watcher(log, "skills.db") is None
        True
    """
    path = _lock_of(log, skillbook)
    make_folder(path.parent)
    with passing_lock(path) as is_mine:
        if is_mine:
            with open(path, "w", encoding="ascii", opener=open_private) as file:
                file.write(f"{os.getpid()}\n")
        yield is_mine


def running_watcher(log: str | Path, skillbook: str) -> int | None:
    """Return the id of the process that watches a log for a skillbook; None if there is none.

    Args:
        log: The file of the log.
        skillbook: The location of the skillbook.
    """
    try:
        import fcntl
    except ImportError:  # nothing is locked then
        return None
    try:
        with _lock_of(log, skillbook).open("rb") as file:
            try:
                # Shared and released at once: this only reads, also where the lock of a killed process is left.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
    except (FileNotFoundError, ValueError):  # there is none, or it has just ended, or just begun
        pass
    return None


@contextmanager
def learning_turn(
    folder: str | Path,
    skillbook: str,
    *,
    cancel_token: CancellationToken | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Iterator[bool]:
    """Wait until no other process learns from attempts into a skillbook, and hold the lock during the block.

    A caller looks up what has been learned while it holds the lock, so that two processes never learn from the same
    attempt.

    Args:
        folder: The folder of the logs, which contains the lock.
        skillbook: The location of the skillbook.
        cancel_token: Ends the wait.
        on_wait: Called before a wait begins.

    Yields:
        Whether the lock is held; if not, the token was cancelled.

    Raises:
        OSError: The lock cannot be created.

    Example:
        >>> import tempfile
        >>> with learning_turn(tempfile.mkdtemp(), "skills.db") as is_mine:
        ...     is_mine
        True
    """
    make_folder(Path(folder))
    path = Path(folder) / f".learn-{_digest(_location(skillbook))}.lock"
    has_waited = False
    while True:
        with passing_lock(path) as is_mine:
            if is_mine:
                yield True
                return
        if not has_waited and on_wait is not None:
            on_wait()
        has_waited = True
        if cancel_token is not None and cancel_token.is_cancelled:
            yield False
            return
        time.sleep(_PAUSE)


def _lock_of(log: str | Path, skillbook: str) -> Path:
    """Return the file of the lock, which differs between the logs and the skillbooks of one folder."""
    names = f"{Path(log).name}\0{_location(skillbook)}"
    return Path(log).parent / f".watch-{_digest(names)}.lock"


def _location(skillbook: str) -> str:
    return skillbook if "://" in skillbook else str(Path(skillbook).absolute())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
