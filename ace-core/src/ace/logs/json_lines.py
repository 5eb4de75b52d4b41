"""Reads JSON Lines.

A line that a parser accepts costs one call of it; only one that it rejects is looked at more closely.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, Final, NamedTuple

from ace.logs.damage import LOST, NOT_JSON, REPAIRED, TOO_DEEP, TOO_LARGE, Damage
from ace.logs.head import Record
from ace.logs.json_values import (
    BETWEEN,
    BLANKS,
    LARGEST_VALUE,
    MOST_TRIED,
    READ_AHEAD,
    Shapes,
    TooDeepError,
    after,
    decode,
    is_cut_off,
    is_deep,
    mark_after,
    may_be_deep,
)
from ace.logs.opening import HEAD_SIZE, decoded

__all__ = ["COMMENTS", "line_records", "objects_in_line"]

COMMENTS: Final = ("#", "//")
"""How lines begin that are ignored between records."""
_MOST_READ_AHEAD: Final = 4 * READ_AHEAD
"""How much is read ahead in vain; in a file with so many damaged lines, records do not have line breaks."""
_MOST_LEARNED_FROM: Final = 10_000
"""How many lines are looked at to learn what records look like."""
_VALUE_STARTS: Final = '"[-0123456789tfnNI'
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f]")
_OBJECT: Final = re.compile(r'\{\s*"')


def line_records(file: BufferedReader, damage: Damage) -> Iterator[Record]:
    """Yield the records of JSON Lines, also those that share a line with others or with damaged ones.

    Args:
        file: The open file.
        damage: Where the rest is noted.
    """
    yield from _Lines(file, damage).records()


def objects_in_line(text: str) -> list[Any]:
    """Return the objects in a line, also if text or a damaged object comes before them.

    Example:
        >>> objects_in_line('app | {"a": 1}'), objects_in_line('{"a": {"b": "tor{"c": 2}{"d": 3}')
        ([{'a': 1}], [{'c': 2}, {'d': 3}])
        >>> objects_in_line('{"a": {"b": 1}, "c": {"d": 2}')
        []
    """
    return _objects_in(text, Shapes()).objects


class _Lines:
    def __init__(self, file: BufferedReader, damage: Damage) -> None:
        self._file = file
        self._damage = damage
        self._number = 0
        self._waiting: deque[bytes] = deque()
        """Lines that were read ahead."""
        self._may_read_ahead = _MOST_READ_AHEAD
        self._shapes = Shapes()

    def records(self) -> Iterator[Record]:
        import orjson

        loads = orjson.loads
        while line := self._next():
            try:
                value = loads(line)
            except ValueError:
                number = self._number
                yield from (Record(value, number) for value in self._damaged(line))
                continue
            if may_be_deep(line) and is_deep(value):
                self._damage.note(TOO_DEEP, self._number)
                continue
            if self._number < _MOST_LEARNED_FROM:
                self._shapes.add(value)
            yield Record(value, self._number)

    def _next(self) -> bytes:
        self._number += 1
        if self._waiting:
            return self._waiting.popleft()
        line = self._file.readline(LARGEST_VALUE)
        if len(line) == LARGEST_VALUE and not line.endswith(b"\n"):
            self._damage.note(TOO_LARGE, self._number)
            while line and not line.endswith(b"\n"):
                line = self._file.readline(HEAD_SIZE)
            return b"\n"
        return line

    def _damaged(self, line: bytes) -> Iterator[Any]:
        text = decoded(line, self._damage, self._number).strip(" \t\r\n\x1e")
        if not text or text.startswith(COMMENTS):
            return
        number = self._number
        if "{" not in text and text[0] not in _VALUE_STARTS:
            self._damage.note(NOT_JSON, number)
            return
        try:
            value, end = decode(text, 0)
        except TooDeepError:
            self._damage.note(TOO_DEEP, number)
            return
        except json.JSONDecodeError as error:
            joined = self._joined(text) if is_cut_off(text, error) and text[0] in "{[" else None
            if joined is not None:
                yield joined
                return
        else:
            if end == len(text.rstrip(", \t")):
                if b"\x00" in line or _CONTROL.search(text):
                    self._damage.note(REPAIRED, number)
                yield value
                return
        found = _objects_in(text, self._shapes)
        if found.is_lossy and (found.objects or text[0] == "{"):
            self._damage.note(LOST, number)
        elif not found.objects:
            self._damage.note(NOT_JSON, number)
        if found.objects:
            self._damage.note(REPAIRED, number)
        yield from found.objects

    def _joined(self, text: str) -> Any:
        """Return the record that begins in a line and ends in a later one; None if there is none.

        Strings may have raw line breaks, and a record may be pretty-printed. Lines that are records are not part of it.
        """
        ahead: list[bytes] = []
        parts = [text]
        size = len(text)
        while size < min(READ_AHEAD, self._may_read_ahead) and (line := self._waiting_or_next()):
            ahead.append(line)
            if _is_object(line):
                break
            parts.append(decoded(line, Damage()).rstrip("\r\n"))
            size += len(line)
        joined = "\n".join(parts)
        try:
            value, end = decode(joined, 0)
        except ValueError:
            end = 0
        rest = joined[end:].partition("\n")[0].strip(" \t\r,")
        used = joined.count("\n", 0, end) if end and not rest else 0
        self._waiting.extendleft(reversed(ahead[used:]))
        if not used:
            self._may_read_ahead -= size
            return None
        self._number += used
        return value

    def _waiting_or_next(self) -> bytes:
        return self._waiting.popleft() if self._waiting else self._file.readline(READ_AHEAD)


def _is_object(line: bytes) -> bool:
    import orjson

    try:
        return isinstance(orjson.loads(line), dict)
    except ValueError:
        return False


class _Objects(NamedTuple):
    objects: list[Any]
    is_lossy: bool
    """Whether something is left that may have been a record."""


def _objects_in(text: str, shapes: Shapes) -> _Objects:
    """Find the objects in a line.

    After a failure, an object may be part of a damaged one, so that it counts only if the line or another object
    begins where it ends. If the damaged one had no error before it, it must look like the record before.
    """
    objects: list[Any] = []
    left = ""
    at = read_to = 0
    is_sure = True
    tried = 0
    while tried < MOST_TRIED:
        at = after(BETWEEN, text, at)
        if at == len(text):
            break
        value, end, error_at = _tried(text, at)
        is_part = end <= read_to and not shapes.fit(value)
        if isinstance(value, dict) and (is_sure or (mark_after(BLANKS, text, end) in ("{", "") and not is_part)):
            objects.append(value)
            at, is_sure, tried = end, True, 0
            continue
        tried += 1
        if is_sure:
            shapes.add_damaged(text, at)
        read_to = max(read_to, error_at)
        following = _next_start(text, at if value is None else end - 1, error_at, shapes)
        left += text[at:following]
        at, is_sure = following, False
    return _Objects(objects, "{" in left + text[at:])


def _tried(text: str, at: int) -> tuple[Any, int, int]:
    """Return the value at a position or None, where it ends, and up to where the text has been understood."""
    try:
        value, end = decode(text, at)
    except json.JSONDecodeError as error:
        return None, at, error.pos
    except TooDeepError:
        return None, at, at
    return value, end, end


def _next_start(text: str, at: int, error_at: int, shapes: Shapes) -> int:
    """Return where the next object may begin after a failure.

    What was understood before the error are parts of the damaged object, except what looks like another record, and
    the last bracket: `{"a": "tor{"b": 1}` fails after the quotation mark with which the second object begins.
    """
    found = _OBJECT.search(text, max(text.rfind("{", at + 1, error_at + 1), at + 1))
    starts = [] if found is None else [found.start()]
    if (alike := shapes.pattern.search(text, at + 1)) is not None:
        starts.append(alike.start())
    return min(starts, default=len(text))
