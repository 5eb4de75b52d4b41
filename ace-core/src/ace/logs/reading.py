"""Finds the logs among files and folders, chooses a reader for each, and yields their runs."""

from __future__ import annotations

import errno
import fnmatch
import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ace._internal.arguments import checked_arguments
from ace._internal.registry import Registry
from ace.logs.decoding import NotALogError
from ace.logs.finding import files_in, reason_of
from ace.logs.formats import built_in
from ace.logs.head import LogHead
from ace.logs.mapping import LogMapping, MappedReader
from ace.logs.reader import LogReader
from ace.logs.run import Problem, Run
from ace.logs.source import Source, file_source
from ace.logs.unknown import UnknownReader
from ace.protocols.errors import error_text

__all__ = [
    "SideFiles",
    "chosen_readers",
    "read_file",
    "read_runs",
    "read_source",
    "reader_for",
    "readers",
    "register_log_reader",
    "unregister_log_reader",
]

_logger = logging.getLogger(__name__)
_SHARED_FOLDERS: Final = frozenset({".config", ".local", "share", "Library", "Application Support"})
"""Folders under the home folder that belong to no tool."""

_registry = Registry[Callable[[], LogReader]]("log_readers", "a log reader")


def register_log_reader(name: str, make: Callable[[], LogReader]) -> None:
    """Register a reader.

    Args:
        name: Its name.
        make: Its class, or a function that returns the reader; called when logs are first read.

    Raises:
        ValueError: Another reader has the same name.
    """
    _registry.register(name, functools.cache(make))


def unregister_log_reader(name: str) -> None:
    """Unregister a reader; an unknown name is ignored.

    Args:
        name: The name of the reader.
    """
    _registry.unregister(name)


def readers() -> list[LogReader]:
    """Return all readers: those of plugins, by name, then the built-in ones. One that cannot be loaded is skipped."""
    return [*(reader for make in _registry.sorted() if (reader := _made(make)) is not None), *built_in()]


def _made(make: Callable[[], LogReader]) -> LogReader | None:
    try:
        return make()
    except Exception as error:  # of a plugin
        _logger.warning("a log reader cannot be loaded, and is skipped: %s", error_text(error))
        return None


def chosen_readers(format: str | None = None, mappings: Sequence[LogMapping] = ()) -> list[LogReader]:
    """Return the readers to ask: the one of a name, or all, mappings first.

    Args:
        format: The name of a reader or mapping.
        mappings: Mappings of further formats.

    Raises:
        ValueError: No reader has that name.
    """
    found: list[LogReader] = [*(MappedReader(mapping) for mapping in mappings), *readers()]
    if format is None:
        return found
    named = [reader for reader in found if reader.name == format]
    if not named:
        names = ", ".join(reader.name for reader in found)
        raise ValueError(f"no reader is called {format!r}; there are {names}")
    return named[:1]


def reader_for(head: LogHead, among: Sequence[LogReader]) -> LogReader | None:
    """Return the reader that claims a source most certainly, the first of several; None if no reader does.

    Args:
        head: The beginning of the source.
        among: The readers to ask.
    """
    best, found = 0.0, None
    for reader in among:
        score = _score(reader, head)
        if score > best:
            best, found = score, reader
    return found


def _score(reader: LogReader, head: LogHead) -> float:
    """Return the score of one reader; a reader of a plugin that fails must not prevent the use of others."""
    try:
        return float(reader.recognises(head))
    except Exception:
        _logger.warning(
            "the log reader %r failed while looking at %s, and is skipped for it", reader.name, head.path, exc_info=True
        )
        return 0.0


@checked_arguments()
def read_runs(
    path: str | os.PathLike[str], *, format: str | None = None, mappings: Sequence[LogMapping] = ()
) -> Iterator[Run | Problem]:
    """Yield the runs in a file or folder, in the order of the names of the files, and what cannot be read.

    Args:
        path: A file or folder.
        format: The name of the reader to use; by default, the content decides.
        mappings: Mappings of further formats, which have precedence over the built-in readers.

    Raises:
        FileNotFoundError: The path does not exist.
        ValueError: No reader has that name.

    Example:
        >>> import json, tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        ...     _ = file.write(json.dumps({"question": "2+2?", "answer": "5", "passed": False}))
        ...     file.flush()
        ...     [run] = read_runs(file.name)
        >>> run.task, run.answer, run.success
        ('2+2?', '5', False)
    """
    root = Path(path)
    if not os.path.lexists(root):
        raise FileNotFoundError(errno.ENOENT, "no such file or folder", str(path))
    asked = chosen_readers(format, mappings)
    side_files = SideFiles(root, asked)
    for found in files_in(root, asked):
        if isinstance(found, Problem):
            yield found
        elif found == root or side_files.owner_of(found) is None:
            yield from read_file(found, asked, is_forced=format is not None)


def read_file(
    path: Path, among: Sequence[LogReader], name: str = "", *, is_forced: bool = False
) -> Iterator[Run | Problem]:
    """Yield the runs of one file, or of a folder that is one log.

    Args:
        path: The file or folder.
        among: The readers to ask.
        name: What people know it as, if this is not the path.
        is_forced: Whether the only reader reads it without being asked whether it can.
    """
    try:
        source = file_source(path, name)
    except (OSError, NotALogError) as error:
        yield Problem(name or str(path), None, reason_of(error) if isinstance(error, OSError) else str(error))
        return
    reader = among[0] if is_forced else reader_for(source.head, among)
    if reader is None:
        yield source.problem("no reader knows this format")
        return
    yield from read_source(source, reader)


def read_source(source: Source, reader: LogReader) -> Iterator[Run | Problem]:
    """Yield the runs of a source with their places and the name of their reader, and then its problems.

    A reader that raises loses what follows in this source, and nothing else.

    Args:
        reader: Its reader.
    """
    # What comes before the second run waits: whether there is one decides the place of the first.
    waiting: list[Run | Problem] = []
    number = 0
    try:
        for found in reader.runs(source):
            number += isinstance(found, Run)
            if number < 2:
                waiting.append(found)
                continue
            if waiting:
                yield from (_placed(item, source, reader, 1) for item in waiting)
                waiting = []
            yield _placed(found, source, reader, number)
    except Exception as error:  # of a plugin, or of a file that changes while it is read
        _logger.debug("the reader %r failed", reader.name, exc_info=True)
        waiting.append(
            source.problem(f"the reader {reader.name!r} failed: {type(error).__name__}: {error_text(error)}")
        )
    yield from (_placed(item, source, reader, None) for item in waiting)
    yield from source.problems


def _placed(run: Run | Problem, source: Source, reader: LogReader, number: int | None) -> Run | Problem:
    """Return a run with its format and its place: its own name, or the file and what tells it from others in it."""
    if isinstance(run, Problem):
        return run
    own = run.place or ("" if number is None else str(number))
    return replace(run, place=f"{source.name}#{own}" if own.isdigit() else own or source.name, format=reader.name)


class SideFiles:
    """Knows which files of a folder belong to a log beside or above them.

    Args:
        root: The folder that is read; files above it are not looked at.
        among: The readers to ask.
    """

    def __init__(self, root: Path, among: Sequence[LogReader]) -> None:
        self._root = root
        self._among = among
        self._owners: dict[tuple[Path, str], bool] = {}

    def owner_of(self, path: Path) -> LogReader | None:
        """Return the reader to whose logs a file belongs; None if it may be a log itself.

        Args:
            path: A file in the folder.
        """
        for reader in self._among:
            if any(_fits(path, pattern) for pattern in reader.side_files) and self._has_log(path, reader):
                return reader
        return self._tool_of(path)

    def _tool_of(self, path: Path) -> LogReader | None:
        """Return the reader of the tool in whose own folder a file is, if no special reader can read the file.

        Tools keep settings, caches and keys there, which must not be taken for logs of an unknown format.
        """
        tool = next((reader for reader in self._among if any(_is_in(path, home) for home in _homes(reader))), None)
        if tool is None:
            return None
        try:
            reader = reader_for(file_source(path).head, self._among)
        except (OSError, NotALogError):
            return tool
        return tool if reader is None or isinstance(reader, UnknownReader) else None

    def _has_log(self, path: Path, reader: LogReader) -> bool:
        """Whether the reader recognises another file in the folder of a file, or in one above it."""
        folders = [folder for folder in path.parents if folder == self._root or self._root in folder.parents]
        return any(self._is_home(folder, reader) for folder in folders)

    def _is_home(self, folder: Path, reader: LogReader) -> bool:
        key = (folder, reader.name)
        if key not in self._owners:
            self._owners[key] = any(self._is_log(child, reader) for child in sorted(folder.iterdir()))
        return self._owners[key]

    def _is_log(self, path: Path, reader: LogReader) -> bool:
        if not path.is_file() or any(_fits(path, pattern) for pattern in reader.side_files):
            return False
        try:
            return reader_for(file_source(path).head, self._among) is reader
        except (OSError, NotALogError):
            return False


def _homes(reader: LogReader) -> list[tuple[str, ...]]:
    """Return the folders of a tool under the home folder, such as `.codex` or `.config/Code`, by their parts."""
    found = []
    for place in reader.places:
        first, *parts = Path(place).parts
        shared = len(list(itertools.takewhile(_SHARED_FOLDERS.__contains__, parts)))
        if first == "~" and shared + 1 < len(parts):
            found.append(tuple(parts[: shared + 1]))
    return list(dict.fromkeys(found))


def _is_in(path: Path, home: tuple[str, ...]) -> bool:
    parts = path.absolute().parts
    return any(parts[start : start + len(home)] == home for start in range(len(parts) - len(home)))


def _fits(path: Path, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path.as_posix(), f"*/{pattern}")
