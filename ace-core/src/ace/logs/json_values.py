"""Decodes JSON values as tolerantly as can be, and knows what records look like."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Final

__all__ = [
    "BETWEEN",
    "BLANKS",
    "LARGEST_VALUE",
    "MOST_TRIED",
    "READ_AHEAD",
    "Shapes",
    "TooDeepError",
    "after",
    "decode",
    "first_keys",
    "is_cut_off",
    "is_deep",
    "loads",
    "mark_after",
    "may_be_deep",
    "value_end",
]

LARGEST_VALUE: Final = 256 * 1024 * 1024
"""How many bytes one record has at most. Decoded, it may take ten times as many."""
READ_AHEAD: Final = 1024 * 1024
"""How much is read in search of the end of a damaged record."""
MOST_TRIED: Final = 200
"""How many places in one damaged record are tried as the beginning of the next one."""
BLANKS: Final = re.compile(r"[ \t\r\n\x1e]*")
"""Matches what may come before a value; some tools begin records with the character 1E."""
BETWEEN: Final = re.compile(r"[ \t\r\n\x1e,]*")
"""Matches what may come between values."""

_DEEPEST: Final = 500
"""How many levels a record has at most, so that readers may use recursion."""
_SHORTEST_DEEP: Final = 2 * _DEEPEST
"""How long a value with so many levels is at least."""
_MOST_SHAPES: Final = 30
_NEARLY: Final = 16
"""How near to the end of a text an error may be caused by the end: words and escape sequences are shorter."""
_LONGEST_START: Final = 64 * 1024
_DECODER: Final = json.JSONDecoder(strict=False)
_NOTHING: Final = re.compile(r"(?!)")
_SURROGATE: Final = re.compile(r"\\u[dD]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class TooDeepError(ValueError):
    """A value has more levels than a record may have."""


def _number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than `int` takes
        return float(digits)


_DECODER_OF_LONG_NUMBERS: Final = json.JSONDecoder(strict=False, parse_int=_number)


def decode(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at a position, and where it ends.

    Strings may have raw control characters, and numbers may be NaN or infinite.

    Args:
        at: The position.

    Raises:
        json.JSONDecodeError: There is none.
        TooDeepError: It is nested too deeply.
    """
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:
        value, end = _DECODER_OF_LONG_NUMBERS.raw_decode(text, at)
    except RecursionError:
        raise TooDeepError from None
    if end - at > _SHORTEST_DEEP and text.count("{", at, end) + text.count("[", at, end) > _DEEPEST and is_deep(value):
        raise TooDeepError
    if text.find("\\u", at, end) >= 0 and _SURROGATE.search(text, at, end):
        value = _without_lone_surrogates(value)
    return value, end


def may_be_deep(data: bytes) -> bool:
    """Return whether a value has enough brackets to be nested too deeply."""
    return len(data) > _SHORTEST_DEEP and data.count(b"{") + data.count(b"[") > _DEEPEST


def is_deep(value: object) -> bool:
    """Return whether a value is nested too deeply."""
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


def loads(data: bytes) -> Any:
    """Return a JSON value that has no damage at all.

    Raises:
        ValueError: It is damaged, or nested too deeply.
    """
    import orjson

    value = orjson.loads(data)
    if may_be_deep(data) and is_deep(value):
        raise TooDeepError
    return value


def value_end(text: str, at: int = 0) -> int:
    """Return where the value ends that begins at a position; 0 if it is not whole.

    Example:
        >>> value_end('{"a": 1} {"b": 2}'), value_end('{"a": ')
        (8, 0)
    """
    try:
        return decode(text, at)[1]
    except ValueError:
        return 0


def first_keys(text: str) -> list[str]:
    """Return the keys of the object with which a text begins, as far as they are in the text.

    Example:
        >>> first_keys('{"id": 1, "steps": [{"text": "th')
        ['id', 'steps']
    """
    keys = []
    at = 1
    with contextlib.suppress(ValueError, RecursionError):
        while text[:1] == "{" and text[at : at + 1] not in ("}", ""):
            key, at = _DECODER.raw_decode(text, after(BETWEEN, text, at))
            at = after(BLANKS, text, at)
            if not isinstance(key, str) or text[at : at + 1] != ":":
                break
            keys.append(key)
            _, at = _DECODER.raw_decode(text, after(BLANKS, text, at + 1))
            at = after(BETWEEN, text, at)
    return keys


def after(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where a pattern ends that matches at a position."""
    found = pattern.match(text, at)
    return at if found is None else found.end()


def mark_after(pattern: re.Pattern[str], text: str, at: int) -> str:
    """Return the character after what a pattern matches; nothing at the end."""
    end = after(pattern, text, at)
    return text[end : end + 1]


def is_cut_off(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether more text might have made a value whole.

    Args:
        text: The text in which it is.
        error: Why it is not whole.
    """
    return error.pos >= len(text) - _NEARLY or error.msg.startswith("Unterminated string")


class Shapes:
    """The keys of the records so far, by which records are told from the parts of damaged ones."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], frozenset[str]] = {}
        self._pattern = _NOTHING
        self._in_pattern = 0

    def add(self, value: object) -> None:
        """Remember what a record looks like."""
        if isinstance(value, dict) and len(self._keys) < _MOST_SHAPES:
            self._add(tuple(value))

    def add_damaged(self, text: str, at: int) -> None:
        """Remember what a damaged record looks like, as far as its keys are whole."""
        keys = first_keys(text[at : at + _LONGEST_START])
        if len(keys) > 1:
            self._add(tuple(keys))

    def _add(self, keys: tuple[str, ...]) -> None:
        if keys and keys not in self._keys and len(self._keys) < _MOST_SHAPES:
            self._keys[keys] = frozenset(keys)

    def fit(self, value: object) -> bool:
        """Return whether a value has most keys of one of the records."""
        if not isinstance(value, dict):
            return False
        return any(2 * len(value.keys() & keys) >= max(len(keys), len(value)) for keys in self._keys.values())

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches the beginning of a record with a known first key."""
        if self._in_pattern < len(self._keys):
            self._in_pattern = len(self._keys)
            firsts = {re.escape(json.dumps(keys[0], ensure_ascii=False)) for keys in self._keys}
            self._pattern = re.compile(rf"\{{\s*(?:{'|'.join(sorted(firsts))})\s*:")
        return self._pattern

    def __bool__(self) -> bool:
        return bool(self._keys)
