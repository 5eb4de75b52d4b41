"""Splits a JSON list into its elements without holding it in memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from ace.cli.inputs.problems import LARGEST_RECORD
from ace.cli.wording import size_text

__all__ = ["BrokenListError", "Element", "list_elements"]

_CHUNK: Final = 1024 * 1024
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
# Only the end of a value is needed. Numbers of any length can be read as floats; `int` refuses long ones.
_DECODER: Final = json.JSONDecoder(parse_int=float)


class Element(NamedTuple):
    """An element of the list: the position of its first byte, and its bytes."""

    start: int
    data: bytes


class BrokenListError(ValueError):
    """The rest of the list cannot be read."""


def list_elements(file: BinaryIO, start: int) -> Iterator[Element]:
    """Yield the elements of a JSON list.

    Args:
        file: The file.
        start: Where its `[` is.

    Raises:
        BrokenListError: The rest is not JSON, is truncated, or is one element that is too large.
    """
    reader = _Window(file, start + 1)
    first = True
    while True:
        mark = reader.next_character()
        if mark == "]":
            return
        if not first:
            if mark != ",":
                raise BrokenListError(
                    f"a comma is missing at byte {reader.position}" if mark else "the list is truncated"
                )
            reader.skip(1)
            mark = reader.next_character()
        if not mark:
            raise BrokenListError("the list is truncated")
        yield reader.element()
        first = False


class _Window:
    """The part of the file that is in memory, as text; each byte is examined as few times as possible."""

    def __init__(self, file: BinaryIO, position: int) -> None:
        self._file = file
        file.seek(position)
        # Bytes that are not UTF-8 are preserved, so that positions stay those of the file.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self.position = position
        """The byte of the file that comes next."""

    def skip(self, count: int) -> None:
        """Skip characters of one byte each."""
        self._at += count
        self.position += count

    def next_character(self) -> str:
        """Skip blanks and return the character that follows; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self.skip(0 if blanks is None else blanks.end() - self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on(_CHUNK):
                return ""

    def element(self) -> Element:
        """Take the JSON value that begins here."""
        while True:
            end = self._end_of_value()
            # A number may continue in the next chunk, also after its decimal point or exponent.
            if end is not None and self._text[end : end + 1] not in ("", *".eE"):
                found = Element(self.position, self._text[self._at : end].encode("utf-8", "surrogateescape"))
                self._at = end
                self.position += len(found.data)
                return found
            length = len(self._text) - self._at
            if length > LARGEST_RECORD:
                raise BrokenListError(f"an element is broken, or larger than {size_text(LARGEST_RECORD)}")
            if not self._read_on(max(_CHUNK, length)):
                raise BrokenListError("the list is truncated, or an element is not JSON")

    def _end_of_value(self) -> int | None:
        """Return where the JSON value that begins here ends; None if it is incomplete."""
        try:
            return _DECODER.raw_decode(self._text, self._at)[1]
        except (ValueError, RecursionError):
            return None

    def _read_on(self, size: int) -> bool:
        """Read more of the file, and drop what has been processed; return whether there was any more."""
        data = self._file.read(size)
        more = self._decoder.decode(data, final=not data)
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(data or more)
