"""Finds the files that paths, folders and globs name, in a fixed order."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from ace.cli.errors import UsageError
from ace.cli.inputs.problems import InputProblem, not_a_file, reason_of

__all__ = ["STANDARD_INPUT", "check_paths", "find_files"]

STANDARD_INPUT = "-"
_PATTERN = frozenset("*?[")


def check_paths(paths: Sequence[str]) -> None:
    """Check that each argument names something that exists.

    Args:
        paths: Files, folders, globs, and `-` for standard input.

    Raises:
        UsageError: One of them does not exist, or matches nothing.
    """
    for path in paths:
        if path == STANDARD_INPUT or os.path.lexists(path):
            continue
        if not _PATTERN & set(path):
            raise UsageError(f"there is no file or folder {path!r}; give the path of recorded traces")
        if not _matches(path):
            raise UsageError(f"no file matches {path!r}; check the pattern")


def find_files(paths: Sequence[str], left_out: Set[Path] = frozenset()) -> Iterator[str | InputProblem]:
    """Yield the files in the order of the arguments, those of a folder by name; each file once.

    Names that begin with a dot are skipped inside folders.

    Args:
        paths: Files, folders, globs, and `-` for standard input, as `check_paths` accepts them.
        left_out: Resolved paths that are skipped inside folders.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        named = [path] if path == STANDARD_INPUT or os.path.lexists(path) else _matches(path)
        for each in named:
            if each == STANDARD_INPUT:
                yield each
            elif Path(each).is_dir():
                yield from _in_folder(Path(each), _folders_above(Path(each)), left_out, seen)
            else:
                yield from _file(Path(each), seen, is_named=each in paths)


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  # pathlib takes no absolute pattern


def _folders_above(folder: Path) -> frozenset[tuple[int, int]]:
    """Return the folders that a link inside this one must not lead to: the search would never end."""
    return frozenset(_key(parent.stat()) for parent in folder.resolve().parents)


def _in_folder(
    folder: Path, above: frozenset[tuple[int, int]], left_out: Set[Path], seen: set[tuple[int, int]]
) -> Iterator[str | InputProblem]:
    try:
        own = _key(folder.stat())
        if own in above:
            yield InputProblem(str(folder), "a symbolic link that leads back to a folder above it")
            return
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        resolved = folder.resolve()
    except OSError as error:
        yield InputProblem(str(folder), reason_of(error))
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith(".") or resolved / entry.name in left_out:
            continue
        if _is_folder(entry):
            yield from _in_folder(path, above | {own}, left_out, seen)
        else:
            yield from _file(path, seen)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself; opening it will say so.
        return False


def _file(path: Path, seen: set[tuple[int, int]], *, is_named: bool = False) -> Iterator[str | InputProblem]:
    """Yield a file that can be read to its end, or the reason why it cannot.

    A pipe is read only if the user named it: a pipe found in a folder has no writer, and reading it would block.
    """
    try:
        found = path.stat()
    except OSError as error:
        yield InputProblem(str(path), reason_of(error))
        return
    if _key(found) in seen:
        return
    seen.add(_key(found))
    other = not_a_file(found.st_mode)
    if other and not (is_named and (stat.S_ISFIFO(found.st_mode) or _is_typed(found))):
        yield InputProblem(str(path), other)
        return
    yield str(path)


def _is_typed(found: os.stat_result) -> bool:
    """Whether a path such as /dev/stdin is the terminal of this command: nothing else ends the reading of a device."""
    try:
        return os.isatty(0) and os.path.samestat(found, os.fstat(0))
    except OSError:  # standard input is closed
        return False


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
