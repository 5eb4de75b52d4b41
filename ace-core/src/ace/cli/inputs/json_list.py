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
# Only where a value ends is wanted. As floats, numbers of any length are read; `int` refuses long ones.
_DECODER: Final = json.JSONDecoder(parse_int=float)


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
        mark = reader.next_character()
        if mark == "]":
            return
        if not first:
            if mark != ",":
                raise BrokenListError(f"a comma is missing at byte {reader.position}" if mark else "the list is cut")
            reader.skip(1)
            mark = reader.next_character()
        if not mark:
            raise BrokenListError("the list is cut")
        yield reader.element()
        first = False


class _Window:
    """The part of the file that is in memory, as text: each of its bytes is looked at as few times as can be."""

    def __init__(self, file: BinaryIO, position: int) -> None:
        self._file = file
        file.seek(position)
        # Bytes that are no UTF-8 come out as they went in, so that places stay those of the file.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self.position = position
        """The byte of the file that comes next."""

    def skip(self, count: int) -> None:
        """Pass over characters of one byte each."""
        self._at += count
        self.position += count

    def next_character(self) -> str:
        """Pass over blanks and return the character that follows; empty at the end."""
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
            # A number may go on in the next chunk, after its point or exponent too.
            if end is not None and self._text[end : end + 1] not in ("", *".eE"):
                found = Element(self.position, self._text[self._at : end].encode("utf-8", "surrogateescape"))
                self._at = end
                self.position += len(found.data)
                return found
            length = len(self._text) - self._at
            if length > LARGEST_RECORD:
                raise BrokenListError(f"an element is broken, or larger than {size_text(LARGEST_RECORD)}")
            if not self._read_on(max(_CHUNK, length)):
                raise BrokenListError("the list is cut, or an element is no JSON")

    def _end_of_value(self) -> int | None:
        """Return where the JSON value that begins here ends; None if it is not whole."""
        try:
            return _DECODER.raw_decode(self._text, self._at)[1]
        except (ValueError, RecursionError):
            return None

    def _read_on(self, size: int) -> bool:
        """Take in more of the file, and let go of what was passed; tell whether there was any more."""
        data = self._file.read(size)
        more = self._decoder.decode(data, final=not data)
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(data or more)
