"""Reads the elements of a JSON list, and JSON values in a row, through a window on the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, Final

from ace.logs.damage import CUT_OFF, LOST, TOO_DEEP, TOO_LARGE, Damage, Kind
from ace.logs.head import Record
from ace.logs.json_values import (
    BETWEEN,
    BLANKS,
    LARGEST_VALUE,
    MOST_TRIED,
    Shapes,
    TooDeepError,
    after,
    decode,
    is_cut_off,
    mark_after,
)
from ace.logs.opening import HEAD_SIZE, decoded

__all__ = ["value_records"]

_MOST_SEARCHES: Final = 50
"""How often the end of a damaged record is searched by counting brackets."""
_SEARCHED: Final = 128 * 1024
"""How much is searched at a time. The cost of an error of the decoder grows with the text before it."""
_OVERLAP: Final = 1024
"""How much of the text is kept before a position: more than a key with its indentation."""
_OBJECT_OR_LINE: Final = re.compile(r'\{\s*"|(?<=\n)\[')
_LINE_END: Final = re.compile(r"[ \t\r]*(?:\n|\Z)")
_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_ENDS: Final = {"{": "}", "[": "]"}


class _TooLargeError(ValueError):
    pass


def value_records(file: BufferedReader, damage: Damage) -> Iterator[Record]:
    """Yield the elements of a JSON list, or JSON values in a row, without keeping them.

    Args:
        file: The open file.
        damage: Where damage is noted.
    """
    yield from _Values(_Window(file, damage), damage).records()


class _Window:
    """The part of a file that is in memory, as text."""

    def __init__(self, file: BufferedReader, damage: Damage) -> None:
        self._file = file
        self._damage = damage
        self._cut = b""
        self.text = ""
        self.at = 0
        """The position in the text; it may only be moved forwards."""
        self.is_end = False
        """Whether the text ends where the file ends."""
        self._line = 1
        self._counted = 0

    def line(self) -> int:
        """Return the number of the line at this position."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def more(self) -> bool:
        """Read more, and forget what is before the position; return whether there was any more."""
        line = self.line()
        size = max(HEAD_SIZE, len(self.text) - self.at)
        if size >= LARGEST_VALUE:
            return False
        data = self._cut + self._file.read(size)
        self.is_end = len(data) == len(self._cut)
        end = len(data) if self.is_end else _end_of_last_character(data)
        if not end:
            return False
        more = decoded(data[:end], self._damage, line + self.text.count("\n", self.at))
        self._cut = data[end:]
        self.text = self.text[self.at :] + more
        self.at = self._counted = 0
        return True

    def load(self, size: int) -> None:
        """Read on until so much text comes after the position, or the file ends."""
        while len(self.text) - self.at < size and self.more():
            pass

    def next(self) -> str:
        """Skip what is between values, and return the character after it; nothing at the end."""
        while True:
            self.at = after(BETWEEN, self.text, self.at)
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        """Read the value that begins here.

        Raises:
            ValueError: There is none.
        """
        while True:
            try:
                value, end = decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if not is_cut_off(self.text, error):
                    raise
                if not self.more():
                    raise (error if self.is_end else _TooLargeError()) from None
                continue
            if isinstance(value, dict | list):
                break
            # A number may continue in the next part of the file.
            if end == len(self.text) and self.more():
                continue
            if mark_after(BLANKS, self.text, end) not in (",", "]", ""):
                raise ValueError("the rest of a damaged value")
            break
        self.at = end
        return value


def _end_of_last_character(data: bytes) -> int:
    """Return where the last character of UTF-8 ends that is whole."""
    for size in range(1, min(4, len(data)) + 1):
        byte = data[-size]
        if byte < 0x80:
            return len(data) - size + 1
        if byte >= 0xC0:
            return len(data) - size
    return len(data)


class _Values:
    def __init__(self, window: _Window, damage: Damage) -> None:
        self._window = window
        self._damage = damage
        self._is_list = False
        self._shapes = Shapes()
        self._indent: str | None = None
        """The blanks before values, if they begin lines."""
        self._searches = 0

    def records(self) -> Iterator[Record]:
        window = self._window
        while mark := window.next():
            if mark in "]}" or (mark == "[" and not self._is_list):
                # Without a list, a closing bracket is what is left of a damaged value.
                self._is_list = mark == "[" or (self._is_list and mark != "]")
                window.at += 1
                continue
            line = window.line()
            indent = self._indent if self._shapes else _indent(window.text, window.at)
            try:
                value = window.value()
            except ValueError as error:
                self._damage.note(_kind_of(error), line)
                if not self._finds_next(error):
                    break
                continue
            self._indent = indent
            self._shapes.add(value)
            yield Record(value, line)
        if self._is_list:
            self._damage.note(CUT_OFF, window.line())

    def _finds_next(self, error: ValueError) -> bool:
        """Go to the next value after a damaged one; return whether there is one."""
        window = self._window
        read_to = error.pos - window.at if isinstance(error, json.JSONDecodeError) else 0
        window.load(_SEARCHED)
        self._shapes.add_damaged(window.text, window.at)
        found = self._candidate(window.at + 1, window.at + read_to, self._end_by_brackets())
        while found is None and not window.is_end:
            # What comes before a value decides whether it begins a line.
            window.at = len(window.text) - _OVERLAP
            window.load(_SEARCHED)
            found = self._candidate(window.at, 0, None)
        window.at = len(window.text) if found is None else found
        return found is not None

    def _end_by_brackets(self) -> int | None:
        """Return where the damaged value ends if its brackets are whole, and a value or the end comes after it."""
        if self._searches == _MOST_SEARCHES:
            return None
        self._searches += 1
        text = self._window.text
        end = _end_of_brackets(text, self._window.at)
        return end if end and mark_after(BETWEEN, text, end) in ("{", "[", "]", "") else None

    def _candidate(self, start: int, read_to: int, end: int | None) -> int | None:
        """Return the first place where a value begins that is a record, and not a part of the damaged one.

        Args:
            start: Where to begin.
            read_to: Where the damage was found. What ends before it is a part, unless it looks like a record.
            end: Where the damaged value ends, if this is known.
        """
        text = self._window.text
        too_deep = 0
        # The last bracket before the damage may be that of the next value: `{"a": "tor{"b": 1}`.
        parts_end = text.rfind("{", start, read_to + 1)
        for found in _OBJECT_OR_LINE.finditer(text, start):
            at = found.start()
            if at < parts_end and not self._shapes.pattern.match(text, at):
                continue
            if end is not None and at >= end:
                break
            try:
                value, after_it = decode(text, at)
            except json.JSONDecodeError as error:
                if self._may_go_on(at, error):
                    return at
                read_to = max(read_to, error.pos)
                parts_end = text.rfind("{", at + 1, read_to + 1)
            except TooDeepError:
                too_deep += 1
                if too_deep == MOST_TRIED:
                    break
            else:
                if self._shapes.fit(value) and (self._is_followed(after_it) or self._ends_line(after_it)):
                    return at
                if after_it > read_to and self._is_followed(after_it) and self._is_indented_right(at):
                    read_to = _end_of_siblings(text, after_it)
                    if _is_outermost(text, read_to):
                        return at
        return end

    def _may_go_on(self, at: int, error: json.JSONDecodeError) -> bool:
        """Whether a record may begin here that is not in memory as a whole."""
        if self._window.is_end or not is_cut_off(self._window.text, error):
            return False
        return not self._shapes or self._shapes.pattern.match(self._window.text, at) is not None

    def _is_followed(self, end: int) -> bool:
        return mark_after(BLANKS, self._window.text, end) in ("{", "[", ",", "]", "")

    def _ends_line(self, end: int) -> bool:
        """Whether a record ends its line, so that what comes after it, which may be damaged, is not a part of it."""
        return _LINE_END.match(self._window.text, end) is not None

    def _is_indented_right(self, at: int) -> bool:
        return self._indent is None or _indent(self._window.text, at) == self._indent


def _kind_of(error: ValueError) -> Kind:
    if isinstance(error, TooDeepError):
        return TOO_DEEP
    return TOO_LARGE if isinstance(error, _TooLargeError) else LOST


def _indent(text: str, at: int) -> str | None:
    """Return the blanks before a value that begins a line; None if it does not begin one."""
    before = text[max(0, at - _OVERLAP) : at].rpartition("\n")
    return before[2] if before[1] and not before[2].strip(" \t") else None


def _end_of_brackets(text: str, at: int) -> int:
    """Return where the bracket is closed with which a damaged value begins; 0 if it is not."""
    open_brackets: list[str] = []
    for found in _MARK.finditer(text, at):
        mark = found.group()[0]
        if mark in _ENDS:
            open_brackets.append(_ENDS[mark])
        elif mark != '"' and (not open_brackets or open_brackets.pop() != mark):
            return 0
        if not open_brackets:
            return found.end() if mark != '"' else 0
    return 0


def _end_of_siblings(text: str, end: int) -> int:
    """Return where the objects end that come after one."""
    at = end
    for _ in range(MOST_TRIED):
        start = after(BETWEEN, text, at)
        if text[start : start + 1] != "{":
            break
        try:
            at = decode(text, start)[1]
        except ValueError:
            break
    return at


def _is_outermost(text: str, end: int) -> bool:
    """Whether objects are followed by further ones or the end of the file, and not by that of another value."""
    at = after(BETWEEN, text, end)
    return text[at : at + 1] in ("", "{") or (text[at] == "]" and not mark_after(BLANKS, text, at + 1))
