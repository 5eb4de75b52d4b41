"""Writes files so that a reader, a crash or a full disk never leaves half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path


def replace_file(path: str | Path, data: bytes) -> None:
    """Take the lock of the folder and write the file; see `write_durably`.

    Args:
        path: The file. Missing folders are made.
        data: The whole content.

    Raises:
        OSError: If the disk is full or the folder is not writable; the old file is as it was.
    """
    with folder_lock(path):
        write_durably(path, data)


def write_durably(path: str | Path, data: bytes) -> None:
    """Replace the content of a file, or create it, in one step that survives a power loss.

    The data go to a temporary file in the same folder first, are flushed to the disk, and take the
    place of the old file by a rename. The permissions of the old file stay; a symbolic link stays one.
    The caller holds `folder_lock` where several processes write the same file.

    Args:
        path: The file. Missing folders are made.
        data: The whole content.

    Raises:
        OSError: If the disk is full or the folder is not writable; the old file is as it was.
    """
    target = real_path(path)
    make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            _keep_permissions(file.fileno(), target)  # before anything is in it that others may not read
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):  # what went wrong before is what has to be told
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # A failed write names no file, and the temporary one means nothing to a reader.
            error.filename = str(target)
        raise
    _sync_folder(target.parent)


def append_line(path: str | Path, line: str) -> None:
    """Add a line to a text file. It is on the disk when this returns.

    What a process left that was killed within a line stays a line of its own.

    Args:
        path: The file; it and its folder are made if they are missing.
        line: The text, without a line break.

    Raises:
        OSError: If the line cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "logs" / "failures.jsonl"
        ...     for line in ("first", "second"):
        ...         append_line(path, line)
        ...     path.read_text(encoding="utf-8")
        'first\\nsecond\\n'
    """
    target = Path(path)
    make_folder(target.parent)
    is_new = not target.exists()
    with target.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        _sync_folder(real_path(target).parent)


@contextlib.contextmanager
def folder_lock(path: str | Path) -> Iterator[None]:
    """Hold the lock of the folder of a file: only one process at a time reads, merges and writes there.

    The lock is on the folder itself and leaves no file behind. It ends with the process, however that ends.
    Where the system has no such locks (Windows), nothing is locked.

    Args:
        path: The file; its folder is made if it is missing.
    """
    folder = real_path(path).parent
    make_folder(folder)
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        remove_leftovers(path)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def file_lock(path: str | Path, *, wait: bool = True, on_wait: Callable[[], None] | None = None) -> Iterator[bool]:
    """Hold a lock that only one process can hold, for work that takes longer than the writing of a file.

    The lock is on a file of its own, which stays. It ends with the process, however that ends. Where the system has
    no such locks (Windows), nothing is locked.

    Args:
        path: The file of the lock; it and its folder are made if they are missing.
        wait: Whether to wait for the lock.
        on_wait: Called before a wait begins.

    Yields:
        Whether it is held.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "learner.lock"
        >>> with file_lock(path) as is_mine, file_lock(path, wait=False) as is_others:
        ...     is_mine, is_others
        (True, False)
    """
    make_folder(Path(path).parent)
    try:
        import fcntl
    except ImportError:
        yield True
        return
    with Path(path).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                yield False
                return
            if on_wait is not None:
                on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield True


def remove_leftovers(path: str | Path) -> None:
    """Delete the temporary files that killed writers of this file left behind. The lock must be held."""
    target = real_path(path)
    start, end = f".{target.name}.", ".tmp"
    for entry in os.scandir(target.parent):
        name = entry.name
        if name.startswith(start) and name.endswith(end) and name[len(start) : -len(end)].isdigit():
            Path(entry.path).unlink(missing_ok=True)


def real_path(path: str | Path) -> Path:
    """Return the file that a path leads to, through symbolic links.

    Args:
        path: The file; it need not be there.

    Raises:
        OSError: The links lead in a circle.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        Path(path).stat()  # tells of a circle in words; what `resolve` does there depends on the Python
    return Path(path).resolve()


def make_folder(folder: Path) -> None:
    """Make a folder, and those that it is in, where they are missing.

    Args:
        folder: The folder.

    Raises:
        OSError: It cannot be made, or something that is no folder is in its place.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from error


def _keep_permissions(descriptor: int, target: Path) -> None:
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    if not hasattr(os, "fchmod"):
        return
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # only the superuser may give files away
            os.fchown(descriptor, old.st_uid, old.st_gid)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
