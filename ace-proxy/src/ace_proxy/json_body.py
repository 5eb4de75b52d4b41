"""A JSON object in the body of a request, in which single places are changed and all other bytes stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["JsonBody", "Value"]

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a JSON text."""

    value: Any
    """The decoded value."""
    start: int
    """Where it begins in the text."""
    end: int
    """Where it ends."""


@dataclass(frozen=True, slots=True)
class JsonBody:
    """An object whose members are decoded, with their places in the text.

    Example:
        >>> body = JsonBody.read(b'{"system": "Be brief.", "temperature": 1e0}')
        >>> body.with_text_after(body.members["system"], " Be polite.")
        b'{"system": "Be brief. Be polite.", "temperature": 1e0}'
    """

    raw: bytes
    """The body."""
    text: str
    """Its text, in which places are counted."""
    members: dict[str, Value]
    """The values by their names. As in every decoder, the last of several members with one name counts."""

    @classmethod
    def read(cls, raw: bytes) -> JsonBody:
        """Decode an object.

        Raises:
            ValueError: The body is not a JSON object.
        """
        text = raw.decode("utf-8")
        members, end = _members(text, _after_space(text, 0))
        if _after_space(text, end) != len(text):
            raise ValueError("text after the JSON object")
        return cls(raw, text, members)

    def get(self, name: str) -> Any:
        """Return the value of a member; None if there is none.

        Args:
            name: The name of the member.
        """
        found = self.members.get(name)
        return None if found is None else found.value

    def members_of(self, place: Value) -> dict[str, Value]:
        """Return the members of an object in this text, with their places.

        Args:
            place: The object.
        """
        return _members(self.text, place.start)[0]

    def items_of(self, place: Value) -> Iterator[Value]:
        """Yield the items of a list in this text, with their places.

        Args:
            place: The list.
        """
        start = _after_space(self.text, place.start + 1)
        while self.text[start] != "]":
            value, end = _DECODER.raw_decode(self.text, start)
            yield Value(value, start, end)
            start = _after_separator(self.text, end, "]")

    def with_text_after(self, place: Value, addition: str) -> bytes:
        """Return the body with characters added to the end of a string.

        Args:
            place: A string in this text.
            addition: The characters.
        """
        end = place.end - 1  # before its quotation mark
        return self._with(json.dumps(addition)[1:-1], end, end)

    def with_item(self, place: Value, item: object, *, is_first: bool = False) -> bytes:
        """Return the body with an item added to a list.

        Args:
            place: A list in this text.
            is_first: Whether it becomes the first item; by default, it becomes the last one.
        """
        written = json.dumps(item)
        if is_first:
            start = place.start + 1
            return self._with(written + ("," if place.value else ""), start, start)
        end = place.end - 1
        return self._with(("," if place.value else "") + written, end, end)

    def with_member(self, name: str, value: object) -> bytes:
        """Return the body with a member whose value replaces the old one, or is added at the end.

        Args:
            name: The name of the member.
            value: Its value.
        """
        old = self.members.get(name)
        if old is not None:
            return self._with(json.dumps(value), old.start, old.end)
        end = self.text.rindex("}")
        return self._with(f"{',' if self.members else ''}{json.dumps(name)}:{json.dumps(value)}", end, end)

    def _with(self, written: str, start: int, end: int) -> bytes:
        """Return the body with other characters between two places. It may be long, so it is copied only once."""
        raw = memoryview(self.raw)
        return b"".join((raw[: self._offset(start)], written.encode(), raw[self._offset(end) :]))

    def _offset(self, place: int) -> int:
        """Return which byte begins at a place in the text."""
        return place if self.text.isascii() else len(self.text[:place].encode())


def _members(text: str, start: int) -> tuple[dict[str, Value], int]:
    """Return the members of the object at a place, and where it ends."""
    if text[start : start + 1] != "{":
        raise ValueError("not a JSON object")
    members: dict[str, Value] = {}
    place = _after_space(text, start + 1)
    while text[place : place + 1] != "}":
        name, place = _DECODER.raw_decode(text, place)
        place = _after_space(text, place)
        if not isinstance(name, str) or text[place : place + 1] != ":":
            raise ValueError("a member without a name or a colon")
        begin = _after_space(text, place + 1)
        value, end = _DECODER.raw_decode(text, begin)
        members[name] = Value(value, begin, end)
        place = _after_separator(text, end, "}")
    return members, place + 1


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    assert match is not None
    return match.end()


def _after_separator(text: str, place: int, closing: str) -> int:
    """Return the place of the next item, or of the closing bracket."""
    place = _after_space(text, place)
    if text[place : place + 1] == closing:
        return place
    if text[place : place + 1] != ",":
        raise ValueError("a comma is missing")
    return _after_space(text, place + 1)
