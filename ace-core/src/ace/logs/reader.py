"""The interface of log readers: every format of logs has one, those of plugins and of this library alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from ace.logs.run import Problem, Run

if TYPE_CHECKING:
    from ace.logs.source import Source

__all__ = ["Head", "LogReader", "Record", "Shape"]

Shape = Literal["lines", "list", "object", "values", "table", "text", "sqlite", "zip", "folder", "live"]
"""What a source is: JSON Lines, one JSON list, one JSON object, several JSON values in a row, a table (CSV), text, a
database, an archive, a folder, or an object in memory (a result that a program passes)."""


class Record(NamedTuple):
    """One JSON value of a source, or one row of a table as a dict."""

    value: Any
    """The value."""
    line: int
    """The line at which it begins, from 1; for the elements of a list in memory, its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of a source, from which a reader recognises its format."""

    path: Path
    """The path. The content decides; the path only decides between formats that share a content."""
    shape: Shape
    """What the source is."""
    records: Sequence[Any] = ()
    """The first values, at most 50: lines, elements of a list, rows, or the only value. For a JSON object that is
    larger than the head, see `keys`."""
    keys: frozenset[str] = frozenset()
    """The keys of the first value, which are known even if the value itself is too large to be read for the head."""
    text: str = ""
    """The beginning of the text, for every shape that is text."""
    names: Sequence[str] = ()
    """For a folder, the names in it; for a database, its tables; for an archive, its members."""

    @property
    def objects(self) -> list[Mapping[str, Any]]:
        """The records that are JSON objects."""
        return [record for record in self.records if isinstance(record, dict)]


@runtime_checkable
class LogReader(Protocol):
    """Reads one format of logs, or one family of formats.

    A reader is found by its name among those of `ace.logs.readers()`; plugins provide theirs with the hook
    `ace_log_readers`. Its attributes are the row of the format in the reference.
    """

    name: str
    """The unique name, such as `codex`, for `--format`."""
    title: str
    """What people call the format, such as `Codex CLI sessions`."""
    places: Sequence[str]
    """Where such logs are by default, as paths beginning with `~` or `$VARIABLE`, or glob patterns."""
    side_files: Sequence[str]
    """Patterns, as of `fnmatch`, of further files that the tool keeps beside its logs and that are no runs. They are
    skipped where the reader recognises a log in the same folder or above it."""
    note: str
    """What is not read or not certain, for the reference; empty if nothing is known."""

    def recognises(self, head: Head) -> float:
        """Return how certainly this is the format, from 0 (another) to 1.

        0.5 to 0.7 is for keys that other tools may use too, 0.8 to 1 for unmistakable ones.

        Args:
            head: The beginning of the source.
        """
        ...

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the runs in order, and problems, none of which ends the reading. It must not keep earlier runs.

        Args:
            source: The source, which `recognises` has claimed.
        """
        ...
