"""Reads logs of sessions, each of which is a run: record by record, the branch that counts, or section by section."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ace.logs.head import Record
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["Session", "active_path", "read_sessions", "sections_of"]


class Session(Protocol):
    """Collects what the records of one session say."""

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is the beginning of another session, as in files that were joined.

        Args:
            record: What a line says.
        """
        ...

    def add(self, record: Mapping[str, Any], place: str) -> None:
        """Add a record.

        Args:
            record: What a line says. Records of unknown types are ignored.
            place: Its position in the log.
        """
        ...

    def run(self) -> Run:
        """Return the run, after the last record."""
        ...


def read_sessions(source: Source, make: Callable[[], Session]) -> Iterator[Run | Problem]:
    """Yield the runs of the sessions in a log, and a problem if no session has any step.

    Args:
        source: The log.
        make: Returns the collector of a session.
    """
    session, is_empty = make(), True
    for record in source.records():
        if not isinstance(record.value, dict):
            continue
        if session.begins_another(record.value):
            run = session.run()
            if run.steps:
                is_empty = False
                yield run
            session = make()
        session.add(record.value, str(record.line))
    run = session.run()
    if run.steps:
        yield run
    elif is_empty:
        yield source.problem("the session has no messages")


def active_path(records: Sequence[Record], id_key: str, parent_key: str) -> list[Record]:
    """Return the records of the branch that was continued last, in order: the last record and those above it.

    Records without an id are kept. After a record whose parent is missing, the one before it in the file continues.

    Args:
        records: The records of a tree.
        id_key: The field with the id of a record.
        parent_key: The field with the id of its parent.
    """
    named = [number for number, record in enumerate(records) if isinstance(record.value.get(id_key), str)]
    positions = {records[number].value[id_key]: index for index, number in enumerate(named)}
    kept = set(range(len(records))) - set(named)
    index = len(named) - 1
    while index >= 0:
        record = records[named[index]].value
        kept.add(named[index])
        above = record.get(parent_key, "")
        if above is None:
            break
        index = min(positions.get(above, index - 1) if isinstance(above, str) else index - 1, index - 1)
    return [record for number, record in enumerate(records) if number in kept]


def sections_of(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield what matches in a text, with what follows it until the next match.

    Args:
        pattern: What begins a section.
        text: The text. What comes before the first match is ignored.
    """
    marks = list(pattern.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=False):
        yield mark, text[mark.end() : end]
