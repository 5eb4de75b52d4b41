"""Locks by name between processes, any number of them on one file.

A lock is a locked byte of the file, so a thousand locks need one open file. The operating system releases them when
their process ends, for whatever reason. A forked child has none of them.

Such locks belong to the process, and closing the file anywhere in it would release them all. So the process opens the
file once, and keeps it open as long as it has a lock on it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, final

from ace._internal.atomic_file import is_open_at, open_private

__all__ = ["named_lock"]


@contextlib.contextmanager
def named_lock(path: Path, name: str) -> Iterator[bool]:
    """Hold a lock, without waiting for it. The file is created, and deleted when no process has a lock on it.

    Args:
        path: The file of the locks.
        name: The name of the lock.

    Yields:
        Whether it is held.

    Raises:
        OSError: The file cannot be created.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "locks"
        >>> with named_lock(path, "a") as first, named_lock(path, "a") as again, named_lock(path, "b") as other:
        ...     first, again, other
        (True, False, True)
        >>> path.exists()
        False
    """
    try:
        import fcntl  # noqa: F401
    except ImportError:
        yield True
        return
    locks = _locks_on(path)
    is_held = locks.take(name)
    try:
        yield is_held
    finally:
        if is_held:
            locks.release(name)


@final
class _FileLocks:
    """The locks that this process has on one file. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._held: dict[int, BinaryIO] = {}

    def take(self, name: str) -> bool:
        place = _place_of(name)
        with self._lock:
            if place in self._held:  # a process may lock a byte twice
                return False
            while True:
                if self._file is None:
                    self._file = open(self._path, "ab", opener=open_private)  # noqa: SIM115  # see the module
                with _gate(self._file):
                    if not is_open_at(self._file, self._path):
                        self._leave_file()  # another process has deleted it
                        continue
                    is_locked = _locks(self._file, place)
                    if is_locked:
                        self._held[place] = self._file
                self._delete_unused()
                return is_locked

    def release(self, name: str) -> None:
        if self._process != os.getpid():
            return
        with self._lock:
            self._unlock(_place_of(name))
            self._delete_unused()

    def _unlock(self, place: int) -> None:
        import fcntl

        file = self._held.pop(place)
        if file is self._file:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, place)
        elif file not in self._held.values():
            file.close()

    def _leave_file(self) -> None:
        """Use another file from now on, and close this one when nothing is locked on it."""
        if self._file is not None and self._file not in self._held.values():
            self._file.close()
        self._file = None

    def _delete_unused(self) -> None:
        """Delete the file if no process has a lock on it: only then all bytes can be locked."""
        if self._file is None or self._file in self._held.values():
            return
        with _gate(self._file):
            if _locks(self._file, 1, length=0) and is_open_at(self._file, self._path):
                with contextlib.suppress(OSError):  # an empty file that stays does no harm
                    self._path.unlink()
        self._leave_file()


_all_locks: dict[Path, _FileLocks] = {}
_creating = threading.Lock()


def _locks_on(path: Path) -> _FileLocks:
    with _creating:
        return _all_locks.setdefault(path.absolute(), _FileLocks(path.absolute()))


def _forget_locks() -> None:
    """Start without locks in a forked child: those of its parent are not its own."""
    global _creating
    _creating = threading.Lock()
    _all_locks.clear()


os.register_at_fork(after_in_child=_forget_locks)


@contextlib.contextmanager
def _gate(file: BinaryIO) -> Iterator[None]:
    """Let one process at a time take locks or delete the file, so that no one is refused because of the deletion."""
    import fcntl

    fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
    try:
        yield
    finally:
        if not file.closed:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, 0)


def _locks(file: BinaryIO, place: int, length: int = 1) -> bool:
    """Lock bytes without waiting, up to the end with the length 0; return whether that was possible."""
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, place)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _place_of(name: str) -> int:
    """Return the byte of a name. The first one is the gate."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return 1 + (int.from_bytes(digest[:8], "big") >> 2)  # offsets are signed
