"""Writes files atomically, so that a crash or a full disk never leaves an incomplete one.

The files contain questions, answers or skills, so a new file can only be read by its owner (mode 0600). An
existing file keeps its permissions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final

PRIVATE: Final = 0o600
"""The permissions of a new file."""

_NO_LINK: Final = os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDERS_OF_DEVICES: Final = frozenset(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))
"""Only the system creates links there."""
_LONGEST_STEM: Final = 80
"""In bytes. A temporary name must be valid wherever the name of the file is."""


def replace_file(path: str | Path, data: bytes) -> None:
    """Take the lock of the folder and write the file; see `write_durably`.

    Args:
        path: The file. Missing folders are created.
        data: The new content.

    Raises:
        OSError: If the disk is full or the folder is not writable; the old file is not changed.
    """
    with folder_lock(path):
        write_durably(path, data)


def write_durably(path: str | Path, data: bytes) -> os.stat_result:
    """Replace the content of a file, or create it, in one step that survives a power loss.

    The data go to a temporary file in the same folder first, are flushed to the disk, and take the place of the old
    file by a rename. The temporary file has a name that is not known in advance and is never opened through a link.
    The permissions of the old file are kept. A symbolic link is followed only as `own_file` says.
    If several processes write the same file, the caller must hold `folder_lock`.

    Args:
        path: The file. Missing folders are created.
        data: The new content.

    Returns:
        The status of the written file, which distinguishes it from a later one at the same path.

    Raises:
        OSError: If the disk is full or the folder is not writable; the old file is not changed.
    """
    target = own_file(path)
    make_folder(target.parent)
    temporary: Path | None = None
    try:
        temporary, descriptor = _new_temporary(target)
        with os.fdopen(descriptor, "wb") as file:
            _keep_permissions(file.fileno(), target)
            file.write(data)
            file.flush()
            _give_own_time(file.fileno())
            os.fsync(file.fileno())
            written = os.fstat(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):  # the original error is the one to report
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # A failed write names no file, and the temporary one means nothing to a reader.
            error.filename = str(target)
        raise
    _sync_folder(target.parent)
    return written


def check_can_write(path: str | Path) -> None:
    """Check that `write_durably` could write a file now, without writing it.

    Args:
        path: The file. It and its folder may be missing.

    Raises:
        OSError: It cannot be written: its name is too long, its folder is read-only, a folder is in its place.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     check_can_write(Path(folder) / "logs" / "skills.json")
        ...     check_can_write(Path(folder) / f"{'a' * 300}.json")
        Traceback (most recent call last):
        ...
        OSError: [Errno 36] File name too long: '...aaa.json'
    """
    target = own_file(path)
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(target.lstat().st_mode):  # also tells of a name that is too long
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    folder = target.parent
    if folder.exists():
        try:
            temporary, descriptor = _new_temporary(target)
        except OSError as error:
            error.filename = str(target)
            raise
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        return
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    longest = os.pathconf(folder, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255
    if any(len(os.fsencode(name)) > longest for name in target.parts):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(target))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))


def create_private(path: str | Path) -> None:
    """Create an empty file that its owner alone can read, for a library that opens files by their names.

    A file that exists keeps its content and permissions.

    Args:
        path: The file; its folder must exist.

    Raises:
        OSError: It cannot be created.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))


def append_line(path: str | Path, line: str) -> None:
    """Add a line to a text file, completely or not at all. It is on the disk when this returns.

    An incomplete line of a killed process becomes a separate line.

    Args:
        path: The file; it and its folder are created if they do not exist.
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
    with appended_file(path) as file:
        is_torn = False
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            is_torn = file.read(1) != b"\n"
        append_whole(file, (f"\n{line}\n" if is_torn else f"{line}\n").encode(), is_durable=True)


@contextlib.contextmanager
def appended_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for reading and appending, and hold a lock on it: only one process at a time appends.

    Where the system has no such locks (Windows), nothing is locked.

    Args:
        path: The file; it and its folder are created if they do not exist.

    Yields:
        The file, which is not buffered.

    Raises:
        OSError: The file cannot be opened, or is a link, which may lead to another file of the user.
    """
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:
        with _opened_for_appending(path) as file:
            yield file
        return
    while True:
        with _opened_for_appending(path) as file:
            flock(file, LOCK_EX)
            if is_open_at(file, path):
                yield file
                return
        # The file was deleted or replaced before it was locked: lines in it would be lost.


def append_whole(file: BinaryIO, data: bytes, *, is_durable: bool) -> None:
    """Add data to a file from `appended_file`, completely or not at all.

    Args:
        is_durable: Whether the data also survive a failure of the system, not only of the process.

    Raises:
        OSError: The disk is full; the file is what it was before.
    """
    size = os.fstat(file.fileno()).st_size
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file.fileno(), left) :]
        if is_durable:
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):  # the original error is the one to report
            os.ftruncate(file.fileno(), size)  # no other writer has added to it: this one holds the lock
        raise
    if is_durable and not size:
        _sync_folder(Path(file.name).parent)


def is_open_at(file: IO[bytes], path: str | Path) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        there = Path(path).stat() if _is_of_system(path) else Path(path).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(os.fstat(file.fileno()), there)


def _is_of_system(path: str | Path) -> bool:
    """Return whether a path is that of a device or an open file of this process, where a link is followed."""
    return Path(path).absolute().parent in _FOLDERS_OF_DEVICES


def _opened_for_appending(path: str | Path) -> BinaryIO:
    try:
        return open(path, "ab+", buffering=0, opener=open_private)
    except FileNotFoundError:
        make_folder(Path(path).parent)
        return open(path, "ab+", buffering=0, opener=open_private)


@contextlib.contextmanager
def folder_lock(path: str | Path) -> Iterator[None]:
    """Hold the lock of the folder of a file: only one process at a time reads, merges and writes there.

    The lock is on the folder itself and needs no file. The system releases it when the process ends.
    Where the system has no such locks (Windows), nothing is locked.

    Args:
        path: The file; its folder is created if it does not exist.
    """
    folder = own_file(path).parent
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

    The lock is on a separate file, which is kept. The system releases it when the process ends. If the system has
    no such locks (Windows), nothing is locked.

    Args:
        path: The file of the lock; it and its folder are created if they do not exist.
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
    with open(path, "ab", opener=open_private) as file:
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


@contextlib.contextmanager
def passing_lock(path: str | Path) -> Iterator[bool]:
    """Hold a lock like `file_lock`, without waiting for it, on a file that is deleted when the lock is released.

    Invariant: the lock that is held is on the file that is at the path. A file that was locked while its last owner
    deleted it is released, and the next one is tried.

    Args:
        path: The file of the lock.

    Yields:
        Whether it is held.

    Raises:
        OSError: The file cannot be made.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "run.lock"
        >>> with passing_lock(path) as is_mine, passing_lock(path) as is_others:
        ...     is_mine, is_others
        (True, False)
        >>> path.exists()
        False
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    while True:
        with open(path, "ab", opener=open_private) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if is_open_at(file, path):
                try:
                    yield True
                finally:
                    with contextlib.suppress(OSError):  # an empty file that stays does no harm
                        Path(path).unlink(missing_ok=True)
                return


def remove_leftovers(path: str | Path) -> None:
    """Delete the temporary files that killed writers of this file left behind. The lock must be held."""
    target = own_file(path)
    # Earlier versions named them after the file and the process.
    names = re.compile(rf"{re.escape(_stem(target))}[0-9a-f]{{16}}\.tmp|\.{re.escape(target.name)}\.\d+\.tmp")
    for entry in os.scandir(target.parent):
        if names.fullmatch(entry.name):
            Path(entry.path).unlink(missing_ok=True)


def real_path(path: str | Path) -> Path:
    """Return the file that a path leads to, through symbolic links.

    Args:
        path: The file, which may not exist.

    Raises:
        OSError: The links lead in a circle.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        Path(path).stat()  # tells of a circle in words; what `resolve` does there depends on the Python
    return Path(path).resolve()


def own_file(path: str | Path) -> Path:
    """Return the file that a path leads to, if it may be replaced.

    A cloned project can contain links. One that leads out of its folder, or from `AGENTS.md` to `.venv/bin/activate`,
    would have us write texts into a file that a shell reads. So a link is only followed to a file with the same suffix
    in the same folder, or below it.

    Args:
        path: The file, which may not exist.

    Raises:
        OSError: It is another link, or the links lead in a circle.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()).resolve()
        >>> (folder / "CLAUDE.md").symlink_to("AGENTS.md")
        >>> (folder / "skills.md").symlink_to("../notes.md")
        >>> own_file(folder / "CLAUDE.md").name
        'AGENTS.md'
        >>> own_file(folder / "skills.md")
        Traceback (most recent call last):
        ...
        OSError: [Errno 40] it is a link to '...notes.md', which is not followed; give that path instead: '...skills.md'
    """
    real, link = real_path(path), Path(path)
    if link.is_symlink() and not (
        link.suffix and link.suffix == real.suffix and real.is_relative_to(link.parent.resolve())
    ):
        raise _unfollowed(path)
    return real


def _unfollowed(path: str | Path) -> OSError:
    about = f"it is a link to {str(Path(path).resolve())!r}, which is not followed; give that path instead"
    return OSError(errno.ELOOP, about, str(path))


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless they exist.

    Raises:
        OSError: It cannot be created, or the path is not a folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from error


def _stem(target: Path) -> str:
    """Return the beginning of the names of the temporary files of a file."""
    name = os.fsencode(target.name)
    if len(name) <= _LONGEST_STEM:
        return f".{target.name}."
    return f".{zlib.crc32(name):08x}."


def _new_temporary(target: Path) -> tuple[Path, int]:
    """Create a new file next to the target, and open it."""
    while True:
        temporary = target.with_name(f"{_stem(target)}{os.urandom(8).hex()}.tmp")
        try:
            return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | _NO_LINK, PRIVATE)
        except FileExistsError:
            continue


def open_private(name: str, flags: int) -> int:
    """Open a file as the `opener` of `open`: a new one is readable by its owner alone, and a link is not followed.

    The links of the system to devices and to the open files of this process are, such as `/dev/stderr`.

    Raises:
        OSError: It cannot be opened, or is another link.
    """
    no_link = 0 if _is_of_system(name) else getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(name, flags | getattr(os, "O_CLOEXEC", 0) | no_link, PRIVATE)
    except OSError as error:
        if Path(name).is_symlink():
            raise _unfollowed(name) from error
        raise


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


def _give_own_time(descriptor: int) -> None:
    """Set the time of change to the nanosecond.

    The time that the system gives is the same for all files written within a tick of some milliseconds, and a file
    that replaced another one may get the number of the replaced one, so the two could not be told apart.
    """
    if os.utime in os.supports_fd:
        now = time.time_ns()
        os.utime(descriptor, ns=(now, now))


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
