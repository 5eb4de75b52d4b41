"""What runs show about a repair: which files a command reads, and whether it notices a change where another one failed.

A command that was called wrongly fails before its work is done, so the right one reads files that it did not get to. A
command that reads nothing more may pass because it skips what failed. Then the line where that failed is changed,
such as 4 to 5 in `assert price == 4`: a command that still looks at it fails.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_sleep.sandbox import Place

__all__ = ["Change", "changes_where_it_failed", "contents", "marks", "read_since", "records_reads"]

_NAMED: Final = re.compile(r"(?<![\w./@+-])(?P<path>[\w./@+-]*\w)(?:[\"']?, line |:|\()(?P<line>\d{1,9})\b")
_LONGEST_LINE: Final = 1000
"""How much of each line of an output is looked at."""
_NUMBER_TEXT_OR_COMPARISON: Final = re.compile(
    r"(?P<number>\b\d{1,9}\b)|(?P<text>\"[^\"\n]*\"|'[^'\n]*')|(?P<equal>={2,3})|(?P<unequal>!==?)"
)


def records_reads(folder: Path) -> bool:
    """Return whether the file system of a folder records when a file is read; not all are mounted that way.

    Args:
        folder: An existing folder.
    """
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.utime(file.name, (0, 0))
        Path(file.name).read_bytes()
        return os.stat(file.name).st_atime_ns > 0


def marks(tree: Path) -> dict[str, int]:
    """Return when each file of a copy was last read, such that a later read changes it.

    Args:
        tree: The copy.
    """
    found = {}
    for path in _files(tree):
        status = path.lstat()
        if status.st_atime_ns > status.st_mtime_ns:
            # Linux writes the time of a read only where the last one is older than the content.
            os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
            status = path.lstat()
        found[str(path.relative_to(tree))] = status.st_atime_ns
    return found


def read_since(tree: Path, before: Mapping[str, int]) -> frozenset[str]:
    """Return the files that were read, relative to the copy.

    Args:
        tree: The copy.
        before: What `marks` returned.
    """
    there = {str(path.relative_to(tree)): path.lstat().st_atime_ns for path in _files(tree)}
    return frozenset(name for name, at in before.items() if there.get(name, at) != at)


def contents(tree: Path) -> dict[str, str]:
    """Return a digest of each file of a copy, relative to it.

    Args:
        tree: The copy.
    """
    return {str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest() for path in _files(tree)}


def _files(tree: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name != ".git"]
        paths = (Path(folder, name) for name in names)
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


@dataclass(frozen=True, slots=True)
class Change:
    """One line with another number, text or comparison."""

    path: str
    """Relative to the copy."""
    line: int
    """Its index."""
    text: str

    def apply(self, tree: Path) -> None:
        """Change the line in a copy.

        Args:
            tree: The copy.
        """
        file = tree / self.path
        lines = file.read_bytes().splitlines(keepends=True)
        lines[self.line] = self.text.encode("utf-8", "surrogateescape")
        file.write_bytes(b"".join(lines))


def changes_where_it_failed(output: str, error: str, place: Place, folder: str) -> list[Change]:
    """Return changes of the line that a failure names; none if it names no line that can be changed.

    Args:
        output: What the command printed that failed.
        error: The line of it that describes the failure. The last place that is named before it counts, else the first
            one after it: what follows an error is mostly by programs that started the one that failed.
        place: A copy of the repository as it was then.
        folder: The folder that the command ran in, relative to the repository.
    """
    lines = [line[:_LONGEST_LINE] for line in output.splitlines()]
    at = max((number for number, line in enumerate(lines) if error and error in line), default=len(lines))
    before = [found for line in lines[: at + 1] for found in _NAMED.finditer(line)]
    after = [found for line in lines[at + 1 :] for found in _NAMED.finditer(line)]
    for found in (*reversed(before), *after):
        path = _inside(found["path"], place, folder)
        if path and (changes := list(_changes(path, int(found["line"]) - 1, place.tree))):
            return changes
    return []


def _inside(named: str, place: Place, folder: str) -> str:
    """Return a path relative to the copy; empty if no file is there."""
    for base in (place.root / folder, place.root, place.tree / folder):
        path = os.path.normpath(base / named)
        for root in map(str, (place.root, place.tree)):
            relative = os.path.relpath(path, root)
            file = place.tree / relative
            if not relative.startswith("..") and file.is_file() and not file.is_symlink():
                return relative
    return ""


def _changes(path: str, number: int, tree: Path) -> Iterator[Change]:
    lines = (tree / path).read_bytes().splitlines(keepends=True)
    if not 0 <= number < len(lines):
        return
    line = lines[number].decode("utf-8", "surrogateescape")
    for found in _NUMBER_TEXT_OR_COMPARISON.finditer(line):
        yield Change(path, number, line[: found.start()] + _other(found) + line[found.end() :])


def _other(found: re.Match[str]) -> str:
    text = found[0]
    if found["number"]:
        return str(int(text) + 1)
    if found["text"]:
        return f"{text[:-1]}_{text[-1]}"
    return f"!{text[1:]}" if found["equal"] else f"={text[1:]}"
