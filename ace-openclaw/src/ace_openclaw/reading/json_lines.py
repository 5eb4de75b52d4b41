"""Reads the lines of a session file, even if it is damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass

__all__ = ["Lines", "read_lines", "without_stray_start"]


@dataclass(frozen=True)
class Lines:
    """The JSON objects of a file."""

    records: tuple[dict[str, object], ...]
    numbers: tuple[str, ...]
    """The number of the line of each object, from 1."""
    skipped: int
    """The number of lines that are not JSON objects."""
    problem: str
    """The problem of the first of those lines; empty if there is none."""


def read_lines(data: bytes) -> Lines:
    r"""Return the JSON objects of a file of JSON lines.

    Args:
        data: The file.

    Example:
        >>> lines = read_lines(b'/spec{"type": "session"}\n{"type": "mess')
        >>> lines.records, lines.numbers, lines.skipped
        (({'type': 'session'},), ('1',), 1)
    """
    records: list[dict[str, object]] = []
    numbers: list[str] = []
    skipped, problem = 0, ""
    # Only a line feed ends a line of JSONL; str.splitlines would also cut at U+2028 inside a text.
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(without_stray_start(line) if number == 1 else line)
        except (ValueError, RecursionError) as error:
            record, why = None, f"line {number}: {error}"
        else:
            why = f"line {number} is not a JSON object"
        if isinstance(record, dict):
            records.append(record)
            numbers.append(str(number))
        else:
            skipped += 1
            problem = problem or why
    return Lines(tuple(records), tuple(numbers), skipped, problem)


def without_stray_start(line: bytes) -> bytes:
    """Return the first line of a file from its brace on: what was typed there has been met in published traces.

    Args:
        line: The first line.
    """
    start = line.find(b"{")
    return line[start:] if start > 0 and not line.lstrip().startswith((b"[", b'"')) else line
