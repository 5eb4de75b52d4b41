"""The beginning of a source, and its records: what readers of logs look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

__all__ = ["LogHead", "Record", "Shape"]

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
class LogHead:
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
