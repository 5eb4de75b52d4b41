"""A file, folder, archive or object in memory, as readers of logs see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from ace.logs import decoding
from ace.logs.head import LogHead, Record, Shape
from ace.logs.run import Problem

__all__ = ["HEAD_RECORDS", "Source", "file_source", "live_source", "text_source"]

HEAD_RECORDS: Final = 50
"""How many records a head has at most."""


class Source:
    """What a reader reads. It is opened again for every pass, so that a reader may go through it twice.

    Args:
        path: The file or folder; for an object in memory, a name.
        name: What people know it as, which differs from the path if the file is a copy.
        head: Its beginning.
        live: The records, for an object in memory.
    """

    def __init__(self, path: Path, name: str, head: LogHead, live: Sequence[Record] = ()) -> None:
        self.path = path
        self.name = name
        self.head = head
        self._live = live
        self.problems: list[Problem] = []
        """What could not be read so far; `read_runs` yields it after the runs."""

    @property
    def shape(self) -> Shape:
        """What the source is."""
        return self.head.shape

    def records(self) -> Iterator[Record]:
        """Yield the JSON values or rows, in order. Damage is noted in `problems`, and all that is valid is read.

        For a list these are its elements, for one object the object itself.
        """
        if self.head.shape == "live":
            yield from self._live
        elif self.head.shape == "object" and self.head.records:
            yield Record(self.head.records[0], 1)
        else:
            yield from decoding.records(self.path, self.name, self.head.shape, self.problems)

    def text(self) -> str:
        """Return the whole text, decoded."""
        if self.head.shape == "live":
            return "\n".join(record.value for record in self._live if isinstance(record.value, str))
        return decoding.text(self.path, self.name, self.problems)

    def problem(
        self, reason: str, line: int | None = None, kind: Literal["loss", "notice", "doubt"] = "loss"
    ) -> Problem:
        """Return a problem of this source.

        Args:
            reason: What is wrong, and what to do about it.
            line: The line, from 1.
            kind: See `Problem.kind`.
        """
        return Problem(self.name, line, reason, kind=kind)


def file_source(path: Path, name: str = "") -> Source:
    """Return the source of a file or folder.

    Args:
        path: The file or folder.
        name: What people know it as, if this is not the path.

    Raises:
        OSError: It cannot be read.
        decoding.NotALogError: It is of a type that cannot be a log, such as an image.
    """
    return Source(path, name or str(path), decoding.head_of(path, HEAD_RECORDS))


def live_source(value: object) -> Source:
    """Return the source of an object in memory: plain JSON values, or a list of them.

    Args:
        value: A JSON value. The elements of a list are the records.
    """
    values = value if isinstance(value, list) else [value]
    return _live([Record(item, number) for number, item in enumerate(values, 1)], "trace")


def text_source(text: str | bytes, name: str = "text") -> Source:
    """Return the source of JSON Lines in memory, with the same tolerance as for a file.

    Args:
        text: The lines, for example what a program printed.
        name: What people know it as.

    Example:
        >>> source = text_source('{"a": 1}\\n{"a": 2}{"a": 3}\\n{"a": ')
        >>> [record.value["a"] for record in source.records()], len(source.problems)
        ([1, 2, 3], 2)
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    problems: list[Problem] = []
    source = _live(list(decoding.records_of_lines(data, name, problems)), name)
    source.problems = problems
    return source


def _live(records: Sequence[Record], name: str) -> Source:
    first = records[0].value if records else None
    keys = frozenset(first) if isinstance(first, dict) else frozenset()
    values = [record.value for record in records[:HEAD_RECORDS]]
    return Source(Path(name), name, LogHead(path=Path(name), shape="live", records=values, keys=keys), records)
