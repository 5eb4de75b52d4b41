"""Splits a JSON list into its elements without holding it in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from ace.cli.inputs.problems import LARGEST_RECORD, size_text

__all__ = ["BrokenListError", "Element", "list_elements"]

_CHUNK: Final = 1024 * 1024
_BLANK: Final = b" \t\n\r"


class Element(NamedTuple):
    """An element of the list: where its bytes are, and what they say."""

    start: int
    data: bytes


class BrokenListError(ValueError):
    """The list cannot be read on from here."""


def list_elements(file: BinaryIO, start: int) -> Iterator[Element]:
    """Yield the elements of a JSON list.

    Args:
        file: The file.
        start: Where its `[` is.

    Raises:
        BrokenListError: The rest is no JSON, is cut, or is one element that is too large.
    """
    reader = _Window(file, start + 1)
    first = True
    while True:
        mark = reader.next_byte()
        if mark == b"]":
            return
        if not first:
            if mark != b",":
                raise BrokenListError(f"a comma is missing at byte {reader.position}" if mark else "the list is cut")
            reader.skip(1)
            mark = reader.next_byte()
        if not mark:
            raise BrokenListError("the list is cut")
        yield reader.element()
        first = False


class _Window:
    """The part of the file that is in memory."""

    def __init__(self, file: BinaryIO, position: int) -> None:
        self._file = file
        file.seek(position)
        self._data = b""
        self._offset = 0
        self._base = position

    @property
    def position(self) -> int:
        return self._base + self._offset

    def skip(self, count: int) -> None:
        self._offset += count

    def next_byte(self) -> bytes:
        """Pass over blanks and return the byte that follows; empty at the end."""
        while True:
            rest = self._data[self._offset :].lstrip(_BLANK) if self._offset < len(self._data) else b""
            if rest:
                self._base += len(self._data) - len(rest)
                self._data, self._offset = rest, 0
                return rest[:1]
            self._base += len(self._data)
            self._data, self._offset = self._file.read(_CHUNK), 0
            if not self._data:
                return b""

    def element(self) -> Element:
        """Take the JSON value that begins here."""
        while True:
            length = _value_length(self._data[self._offset :])
            # A number may go on in the next chunk.
            if length is not None and self._offset + length < len(self._data):
                found = Element(self.position, self._data[self._offset : self._offset + length])
                self._offset += length
                return found
            if len(self._data) - self._offset > LARGEST_RECORD:
                raise BrokenListError(f"an element is broken, or larger than {size_text(LARGEST_RECORD)}")
            more = self._file.read(max(_CHUNK, len(self._data)))
            if not more:
                raise BrokenListError("the list is cut, or an element is no JSON")
            self._data += more


def _value_length(data: bytes) -> int | None:
    """Return how many bytes the JSON value at the beginning has; None if it is not whole."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return end if text.isascii() else len(text[:end].encode("utf-8", "surrogateescape"))
