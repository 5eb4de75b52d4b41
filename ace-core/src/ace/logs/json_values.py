"""Reads JSON values one after the other, and finds those that are whole among damaged ones.

`line_records` reads JSON Lines: what a parser accepts costs one call of it, and only a line that it rejects is looked
at more closely. `value_records` reads the elements of a list and values in a row, through a window on the file.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ace.logs.damage import CUT_OFF, LOST, NOT_JSON, REPAIRED, TOO_DEEP, TOO_LARGE, Damage, Kind
from ace.logs.head import Record
from ace.logs.opening import HEAD_SIZE, LogFile, decoded

__all__ = ["LARGEST_VALUE", "first_keys", "line_records", "value_end", "value_records", "whole_value", "whole_values"]

LARGEST_VALUE: Final = 256 * 1024 * 1024
"""How many bytes one record has at most. Decoded, it may take ten times as many."""
_DEEPEST: Final = 500
"""How many levels a record has at most, so that readers may use recursion."""
_READ_AHEAD: Final = 1024 * 1024
"""How much is read at most in search of the end of a record with line breaks."""
_MOST_READ_AHEAD: Final = 16 * _READ_AHEAD
"""How much is read in vain per file in that search; files with so many damaged lines are not JSON with line breaks."""
_MOST_TRIED: Final = 200
"""How many places in one damaged record are tried as the beginning of the next one."""
_MOST_SKIPS: Final = 50
"""How often the end of a damaged record is searched by counting brackets."""
_OVERLAP: Final = 1024
"""How much of the text is kept before a position: more than a key with its indentation."""
_NEARLY: Final = 16
"""How near to the end of a text an error may be caused by the end: words and escape sequences are shorter."""
_COMMENTS: Final = ("#", "//")

_DECODER: Final = json.JSONDecoder(strict=False)
_BLANKS: Final = re.compile(r"[ \t\r\n\x1e]*")
_BETWEEN: Final = re.compile(r"[ \t\r\n\x1e,]*")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f]")
_OBJECT: Final = re.compile(r'\{\s*"')
_LINE_START: Final = re.compile(r"(?<=\n)[{\[]")
_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ENDS: Final = {"{": "}", "[": "]"}


class _TooDeepError(ValueError):
    pass


class _TooLargeError(ValueError):
    pass


def _number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than `int` takes
        return float(digits)


_DECODER_OF_LONG_NUMBERS: Final = json.JSONDecoder(strict=False, parse_int=_number)


def _decode(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at a position, and where it ends.

    Raises:
        json.JSONDecodeError: There is none.
        _TooDeepError: It is nested too deeply.
    """
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:
        value, end = _DECODER_OF_LONG_NUMBERS.raw_decode(text, at)
    except RecursionError:
        raise _TooDeepError from None
    if _may_be_deep(text, at, end) and _is_deep(value):
        raise _TooDeepError
    if "\\u" in text and (text.find("\\ud", at, end) >= 0 or text.find("\\uD", at, end) >= 0):
        value = _without_lone_surrogates(value)
    return value, end


def _may_be_deep(text: str, at: int, end: int) -> bool:
    return end - at > _DEEPEST and text.count("{", at, end) + text.count("[", at, end) > _DEEPEST


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _inside(value: object) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _without_lone_surrogates(value: Any) -> Any:
    """Return a value that can be encoded as UTF-8: half a character, as programs cut it, becomes U+FFFD."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    return value


def whole_value(data: bytes, damage: Damage) -> Any:
    """Return the value that makes up a document.

    Args:
        data: The document.
        damage: Where other encodings are noted.

    Raises:
        ValueError: It is not one value.
    """
    import orjson

    try:
        value = orjson.loads(data)
    except ValueError:
        text = decoded(data, damage, 1).strip()
        value, end = _decode(text, 0)
        if end < len(text):
            raise ValueError("more than one value") from None
        return value
    if data.count(b"{") + data.count(b"[") > _DEEPEST and _is_deep(value):
        raise _TooDeepError
    return value


def value_end(text: str) -> int:
    """Return where the value ends with which a text begins; 0 if it is not whole.

    Example:
        >>> value_end('{"a": 1} {"b": 2}'), value_end('{"a": ')
        (8, 0)
    """
    try:
        return _decode(text, 0)[1]
    except ValueError:
        return 0


def first_keys(text: str) -> frozenset[str]:
    """Return the keys of the object with which a text begins, as far as the text has them.

    Example:
        >>> sorted(first_keys('{"id": 1, "steps": [{"text": "th'))
        ['id', 'steps']
    """
    keys = set()
    at = 1
    try:
        while text[:1] == "{" and text[at : at + 1] not in ("}", ""):
            key, at = _DECODER.raw_decode(text, _after(_BETWEEN, text, at))
            at = _after(_BLANKS, text, at)
            if not isinstance(key, str) or text[at : at + 1] != ":":
                break
            keys.add(key)
            _, at = _DECODER.raw_decode(text, _after(_BLANKS, text, at + 1))
            at = _after(_BETWEEN, text, at)
    except (ValueError, RecursionError):
        pass
    return frozenset(keys)


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


class _Known(NamedTuple):
    """What the last whole record looked like, by which others are told from the parts of damaged ones."""

    keys: frozenset[str]
    pattern: re.Pattern[str]
    """Matches the beginning of a record with the same first key."""

    def fits(self, value: object) -> bool:
        return isinstance(value, dict) and len(self.keys & value.keys()) * 2 >= len(self.keys)


def _known(value: object) -> _Known | None:
    if not isinstance(value, dict) or not value:
        return None
    first = re.escape(json.dumps(next(iter(value)), ensure_ascii=False))
    return _Known(frozenset(value), re.compile(rf"\{{\s*{first}\s*:"))


# JSON Lines


def line_records(file: LogFile, damage: Damage) -> Iterator[Record]:
    """Yield the records of JSON Lines, also those that share a line with others or with damaged ones.

    Args:
        file: The open file.
        damage: Where the rest is noted.
    """
    yield from _Lines(file, damage).records()


def whole_values(text: str) -> list[Any]:
    """Return the objects in a line, also if text or a damaged object comes before them.

    Example:
        >>> whole_values('app | {"a": 1}'), whole_values('{"a": {"b": "tor{"c": 2}{"d": 3}')
        ([{'a': 1}], [{'c': 2}, {'d': 3}])
        >>> whole_values('{"a": {"b": 1}, "c": {"d": 2}')
        []
    """
    return _objects_in(text, None).objects


class _Lines:
    def __init__(self, file: LogFile, damage: Damage) -> None:
        self._file = file
        self._damage = damage
        self._number = 0
        self._waiting: deque[bytes] = deque()
        """Lines that were read ahead."""
        self._may_read_ahead = _MOST_READ_AHEAD
        self._last: object = None

    def records(self) -> Iterator[Record]:
        import orjson

        loads = orjson.loads
        while line := self._next():
            try:
                value = loads(line)
            except ValueError:
                for value in self._damaged(line):
                    self._last = value
                    yield Record(value, self._number)
                continue
            if len(line) > _DEEPEST and line.count(b"{") + line.count(b"[") > _DEEPEST and _is_deep(value):
                self._damage.note(TOO_DEEP, self._number)
                continue
            self._last = value
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
        if not text or text.startswith(_COMMENTS):
            return
        number = self._number
        try:
            value, end = _decode(text, 0)
        except _TooDeepError:
            self._damage.note(TOO_DEEP, number)
            return
        except json.JSONDecodeError as error:
            joined = self._joined(text) if _is_cut_off(text, error) and text[0] in _ENDS else None
            if joined is not None:
                yield joined
                return
        else:
            if end == len(text.rstrip(", \t")):
                if b"\x00" in line or _CONTROL.search(text):
                    self._damage.note(REPAIRED, number)
                yield value
                return
        found = _objects_in(text, _known(self._last))
        if found.is_lossy and (found.objects or text[0] == "{"):
            self._damage.note(LOST, number)
        elif not found.objects:
            self._damage.note(NOT_JSON, number)
        if found.objects:
            self._damage.note(REPAIRED, number)
        yield from found.objects

    def _joined(self, text: str) -> Any:
        """Return the record that begins with a line and goes on in those after it; None if there is none.

        Strings may have raw line breaks, and a record may be pretty-printed. Lines that are records are not part of it.
        """
        ahead: list[bytes] = []
        parts = [text]
        size = len(text)
        while size < min(_READ_AHEAD, self._may_read_ahead) and (line := self._waiting_or_next()):
            ahead.append(line)
            if _is_object(line):
                break
            parts.append(decoded(line, Damage()).rstrip("\r\n"))
            size += len(line)
        joined = "\n".join(parts)
        try:
            value, end = _decode(joined, 0)
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
        return self._waiting.popleft() if self._waiting else self._file.readline(_READ_AHEAD)


def _is_object(line: bytes) -> bool:
    import orjson

    try:
        return isinstance(orjson.loads(line), dict)
    except ValueError:
        return False


def _is_cut_off(text: str, error: json.JSONDecodeError) -> bool:
    """Whether more text might have made a value whole."""
    return error.pos >= len(text) - _NEARLY or error.msg.startswith("Unterminated string")


class _Objects(NamedTuple):
    objects: list[Any]
    is_lossy: bool
    """Whether something is left that may have been a record."""


def _objects_in(text: str, known: _Known | None) -> _Objects:
    """Find the objects in a line.

    After a failure, an object may be part of a damaged one, so that it counts only if the line or another object
    begins where it ends. If the damaged one had no error before it, it must look like the record before.
    """
    objects: list[Any] = []
    left = ""
    at = read_to = 0
    is_sure = True
    for _ in range(_MOST_TRIED):
        at = _after(_BETWEEN, text, at)
        if at == len(text):
            break
        value, end, error_at = _tried(text, at)
        is_part = end <= read_to and not (known and known.fits(value))
        if isinstance(value, dict) and (is_sure or (_ends_object(text, end) and not is_part)):
            objects.append(value)
            at, is_sure = end, True
            continue
        read_to = max(read_to, error_at)
        following = _next_start(text, at if value is None else end - 1, error_at, known)
        left += text[at:following]
        at, is_sure = following, False
    return _Objects(objects, "{" in left + text[at:])


def _tried(text: str, at: int) -> tuple[Any, int, int]:
    """Return the value at a position or None, where it ends, and up to where the text has been understood."""
    try:
        value, end = _decode(text, at)
    except json.JSONDecodeError as error:
        return None, at, error.pos
    except _TooDeepError:
        return None, at, at
    return value, end, end


def _ends_object(text: str, end: int) -> bool:
    after = _after(_BLANKS, text, end)
    return after == len(text) or text[after] == "{"


def _next_start(text: str, at: int, error_at: int, known: _Known | None) -> int:
    """Return where the next object may begin after a failure.

    What was understood before the error are parts of the damaged object, except what looks like another record, and
    the last bracket: `{"a": "tor{"b": 1}` fails after the quotation mark with which the second object begins.
    """
    found = _OBJECT.search(text, max(text.rfind("{", at + 1, error_at + 1), at + 1))
    starts = [] if found is None else [found.start()]
    if known is not None and (alike := known.pattern.search(text, at + 1)) is not None:
        starts.append(alike.start())
    return min(starts, default=len(text))


# Lists, and values in a row


def value_records(file: LogFile, damage: Damage) -> Iterator[Record]:
    """Yield the elements of a JSON list, or JSON values in a row, without keeping them.

    Args:
        file: The open file.
        damage: Where damage is noted.
    """
    yield from _Values(_Window(file, damage), damage).records()


class _Window:
    """The part of a file that is in memory, as text."""

    def __init__(self, file: LogFile, damage: Damage) -> None:
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
        more = decoded(data[:end], self._damage, line + self.text.count("\n", self.at))
        self._cut = data[end:]
        self.text = self.text[self.at :] + more
        self.at = self._counted = 0
        return end > 0

    def next(self) -> str:
        """Skip what is between values, and return the character after it; nothing at the end."""
        while True:
            self.at = _after(_BETWEEN, self.text, self.at)
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        """Read the value that begins here.

        Raises:
            ValueError: There is none.
        """
        while True:
            try:
                value, end = _decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if not _is_cut_off(self.text, error):
                    raise
                if not self.more():
                    raise (error if self.is_end else _TooLargeError()) from None
                continue
            # A number may go on in the next part of the file.
            if end < len(self.text) or isinstance(value, dict | list | str) or not self.more():
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
        self._known: _Known | None = None
        self._pattern = _LINE_START
        """Where a value may begin after a damaged one."""
        self._skips = 0

    def records(self) -> Iterator[Record]:
        window = self._window
        while mark := window.next():
            if mark == ("]" if self._is_list else "["):
                self._is_list = not self._is_list
                self._pattern = _OBJECT if self._known is None and self._is_list else self._pattern
                window.at += 1
                continue
            line, indent = window.line(), _indent(window.text, window.at)
            try:
                value = window.value()
            except ValueError as error:
                self._damage.note(_kind_of(error), line)
                if not self._finds_next():
                    break
                continue
            if not self._is_list and not isinstance(value, dict | list):
                self._damage.note(LOST, line)
                continue
            if self._known is None and (known := _known(value)) is not None:
                self._known, self._pattern = known, _pattern(known, indent)
            yield Record(value, line)
        if self._is_list:
            self._damage.note(CUT_OFF, window.line())

    def _finds_next(self) -> bool:
        """Go to the next whole value after a damaged one; return whether there is one."""
        window = self._window
        if self._known is None and self._skips < _MOST_SKIPS:
            self._skips += 1
            while len(window.text) - window.at < _READ_AHEAD and window.more():
                pass
            end = _end_of_brackets(window.text, window.at)
            if end and window.text[_after(_BETWEEN, window.text, end) :][:1] in ("{", "[", "]", ""):
                window.at = end
                return True
        start = window.at + 1
        while True:
            start, is_found = self._candidate(start)
            if is_found:
                window.at = start
                return True
            # The value before the position decides whether the next one begins a line.
            window.at = max(window.at, start - _OVERLAP)
            start -= window.at
            if window.more():
                continue
            if window.is_end and start >= len(window.text) - _OVERLAP:
                window.at = len(window.text)
                return False
            start += 1

    def _candidate(self, start: int) -> tuple[int, bool]:
        """Return the first place where a whole value begins, and whether it does; otherwise where to look on."""
        text = self._window.text
        for found in self._pattern.finditer(text, start):
            start = found.start()
            try:
                value, end = _decode(text, start)
            except json.JSONDecodeError as error:
                if not self._window.is_end and _is_cut_off(text, error):
                    return start, False
                continue
            except _TooDeepError:
                continue
            if self._is_record(value, end):
                return start, True
        return max(start, len(text) - _OVERLAP), False

    def _is_record(self, value: object, end: int) -> bool:
        """Whether a value that was found after a damaged one is a record, and not a part of the damaged one."""
        text = self._window.text
        if self._known is not None and not self._known.fits(value):
            return False
        after = _after(_BLANKS, text, end)
        if text[after : after + 1] not in (("", "{", "[", ",", "]") if self._is_list else ("", "{", "[")):
            return False
        return not self._is_list or self._known is not None or not _ends_in_value(text, end)


def _kind_of(error: ValueError) -> Kind:
    if isinstance(error, _TooDeepError):
        return TOO_DEEP
    return TOO_LARGE if isinstance(error, _TooLargeError) else LOST


def _indent(text: str, at: int) -> str | None:
    """Return the blanks before a value that begins a line; None if it does not begin one."""
    before = text[max(0, at - _OVERLAP) : at].rpartition("\n")
    return before[2] if before[1] and not before[2].strip(" \t") else None


def _pattern(known: _Known, indent: str | None) -> re.Pattern[str]:
    """Return where values like the known one begin: with the same key, or in a line with the same indentation."""
    line_start = "" if indent is None else rf"|(?<=\n{re.escape(indent)})[{{\[]"
    return re.compile(known.pattern.pattern + line_start)


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


def _ends_in_value(text: str, end: int) -> bool:
    """Whether the list of a value ends inside another value."""
    at = end
    for _ in range(_MOST_TRIED):
        at = _after(_BETWEEN, text, at)
        if text[at : at + 1] == "]":
            return text[_after(_BLANKS, text, at + 1) :][:1] in ("}", "]", ",")
        try:
            at = _decode(text, at)[1]
        except ValueError:
            break
    return False
