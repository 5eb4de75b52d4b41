"""Finds the files in folders, and says why some of them cannot be read."""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from ace.logs.head import LogHead
from ace.logs.reader import LogReader
from ace.logs.run import Problem

__all__ = ["files_in", "not_a_file", "reason_of"]


def files_in(path: Path, readers: Sequence[LogReader], skipped: Set[Path] = frozenset()) -> Iterator[Path | Problem]:
    """Yield the files of a folder and of the folders in it, in the order of their names, each file once.

    A folder that a reader claims as one log is yielded itself. Names that begin with a dot are skipped, unless a reader
    names such a file among its places.

    Args:
        path: A folder; a file is yielded as it is.
        readers: The readers that are asked.
        skipped: Resolved paths that are skipped.
    """
    if path.is_dir():
        hidden = frozenset(
            name for reader in readers for place in reader.places if (name := Path(place).name).startswith(".")
        )
        yield from _Search(readers, skipped, hidden).folder(path, _folders_above(path))
    else:
        yield path


class _Search:
    """One search, which yields each file once."""

    def __init__(self, readers: Sequence[LogReader], skipped: Set[Path], hidden: Set[str]) -> None:
        self._readers = readers
        self._skipped = skipped
        self._hidden = hidden
        self._seen: set[tuple[int, int]] = set()

    def folder(self, folder: Path, above: Set[tuple[int, int]]) -> Iterator[Path | Problem]:
        try:
            own = _key(folder.stat())
            if own in above:
                yield Problem(str(folder), None, "a symbolic link that leads back to a folder above it")
                return
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            resolved = folder.resolve()
        except OSError as error:
            yield Problem(str(folder), None, reason_of(error))
            return
        entries = [entry for entry in entries if not self._is_skipped(entry.name, resolved)]
        if self._is_one_log(folder, [entry.name for entry in entries]):
            yield folder
            return
        for entry in entries:
            if _is_folder(entry):
                yield from self.folder(Path(entry.path), above | {own})
            else:
                yield from self._file(Path(entry.path))

    def _is_skipped(self, name: str, folder: Path) -> bool:
        is_hidden = name.startswith(".") and not any(fnmatch.fnmatch(name, pattern) for pattern in self._hidden)
        return is_hidden or folder / name in self._skipped

    def _is_one_log(self, folder: Path, names: Sequence[str]) -> bool:
        head = LogHead(path=folder, shape="folder", names=names)
        return any(reader.recognises(head) > 0 for reader in self._readers)

    def _file(self, path: Path) -> Iterator[Path | Problem]:
        """Yield a file that has an end, or the reason why it cannot be read: a pipe would be waited for."""
        try:
            found = path.stat()
        except OSError as error:
            yield Problem(str(path), None, reason_of(error))
            return
        if _key(found) in self._seen:
            return
        self._seen.add(_key(found))
        other = not_a_file(found.st_mode)
        yield Problem(str(path), None, other) if other else path


def _folders_above(folder: Path) -> frozenset[tuple[int, int]]:
    """Return the folders that a link inside this one must not lead to, because the search would never end."""
    return frozenset(_key(parent.stat()) for parent in folder.resolve().parents)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself; opening it will say so.
        return False


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def not_a_file(mode: int) -> str:
    """Return the kind of a file that has no end, such as a pipe, or an empty text for a regular file.

    Args:
        mode: Its mode, as reported by the system.

    Example:
        >>> not_a_file(stat.S_IFIFO), not_a_file(stat.S_IFREG)
        ('a pipe, not a file', '')
    """
    kinds = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"))
    return next((f"a {kind}, not a file" for is_kind, kind in kinds if is_kind(mode)), "")


def reason_of(error: OSError) -> str:
    """Return why a file cannot be read.

    Args:
        error: The error that the system raised.

    Example:
        >>> reason_of(PermissionError(13, "Permission denied"))
        'no permission to read it'
    """
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if error.errno == errno.ELOOP:
        return "a symbolic link that leads to itself"
    if isinstance(error, FileNotFoundError):
        return "a symbolic link to nothing"
    return (error.strerror or str(error)).lower()
