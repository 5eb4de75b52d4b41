"""At most one process watches a log for a skillbook, and others can see which."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ace.atomic_file import make_folder, passing_lock

__all__ = ["running_watcher", "watching"]


@contextmanager
def watching(log: str | Path, skillbook: str) -> Iterator[bool]:
    """Hold the lock of the process that watches a log for a skillbook, without waiting for it.

    The lock is on a hidden file beside the log. The system releases it when the process ends for any reason.

    Args:
        log: The file of the log; it need not exist.
        skillbook: The location of the skillbook.

    Yields:
        Whether it is held; if not, another process watches.

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
            path.write_text(f"{os.getpid()}\n", encoding="ascii")
        yield is_mine


def running_watcher(log: str | Path, skillbook: str) -> int | None:
    """Return the process that watches a log for a skillbook, or None.

    Args:
        log: The file of the log.
        skillbook: The location of the skillbook.
    """
    path = _lock_of(log, skillbook)
    if not path.exists():
        return None
    with passing_lock(path) as is_free:
        if is_free:
            return None
        try:
            return int(path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):  # it has just ended, or just begun
            return None


def _lock_of(log: str | Path, skillbook: str) -> Path:
    """Return the file of the lock, which differs between the logs and the skillbooks of one folder."""
    location = skillbook if "://" in skillbook else str(Path(skillbook).absolute())
    names = f"{Path(log).name}\0{location}"
    return Path(log).parent / f".watch-{hashlib.sha256(names.encode()).hexdigest()[:12]}.lock"
