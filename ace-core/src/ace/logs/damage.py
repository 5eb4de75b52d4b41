"""Counts what is damaged in a file, so that every kind of damage is named once, however often it occurs."""

from __future__ import annotations

from typing import Final, NamedTuple

from ace.logs.run import Problem

__all__ = [
    "BAD_ROW",
    "CUT_OFF",
    "LOST",
    "NOT_JSON",
    "NOT_UTF_8",
    "REPAIRED",
    "TOO_DEEP",
    "TOO_LARGE",
    "UNPACKED_IN_PART",
    "Damage",
    "Kind",
]


class Kind(NamedTuple):
    """A kind of damage, as people are shown it."""

    one: str
    """What happened, if it happened once."""
    many: str
    """What happened, if it happened more often, with `{count}`."""


LOST: Final = Kind("a damaged record is lost", "{count} damaged records are lost, the first here")
CUT_OFF: Final = Kind("the list is cut off at its end", "{count} lists are cut off at their ends, the first here")
REPAIRED: Final = Kind(
    "a line that is not just one JSON value; what is whole in it was read",
    "{count} lines that are not just one JSON value, the first here; what is whole in them was read",
)
NOT_JSON: Final = Kind(
    "a line that is not JSON is skipped", "{count} lines that are not JSON are skipped, the first here"
)
NOT_UTF_8: Final = Kind(
    "bytes that are not UTF-8 are read as Windows-1252; convert the file if they are in another encoding",
    "bytes that are not UTF-8 in {count} places, the first here, are read as Windows-1252; convert the file if they "
    "are in another encoding",
)
TOO_DEEP: Final = Kind(
    "a record nested too deeply is skipped", "{count} records nested too deeply are skipped, the first here"
)
TOO_LARGE: Final = Kind(
    "a record larger than 256 MB is skipped; split it, for example with jq",
    "{count} records larger than 256 MB are skipped, the first here; split them, for example with jq",
)
BAD_ROW: Final = Kind(
    "a row that does not fit the header is skipped",
    "{count} rows that do not fit the header are skipped, the first here",
)
UNPACKED_IN_PART: Final = Kind("the compressed data is damaged or cut off; what comes before was read", "")


class Damage:
    """What is damaged in one file, as far as it has been read."""

    def __init__(self) -> None:
        self._found: dict[Kind, tuple[int, int | None]] = {}

    def note(self, kind: Kind, line: int | None = None) -> None:
        """Count one occurrence.

        Args:
            kind: The kind of damage.
            line: Where it is.
        """
        count, first = self._found.get(kind, (0, line))
        self._found[kind] = count + 1, first

    def problems(self, name: str) -> list[Problem]:
        """Return one problem for each kind of damage.

        Args:
            name: The name of the file.

        Example:
            >>> damage = Damage()
            >>> damage.note(LOST, 7)
            >>> damage.note(LOST, 9)
            >>> str(damage.problems("run.jsonl")[0])
            'run.jsonl, line 7: 2 damaged records are lost, the first here'
        """
        return [
            Problem(
                name,
                line,
                kind.one if count == 1 else kind.many.format(count=count),
                count,
                "notice" if kind is NOT_UTF_8 else "loss",
            )
            for kind, (count, line) in self._found.items()
        ]
