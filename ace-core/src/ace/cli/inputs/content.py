"""Recognises what a file holds, from its beginning."""

from __future__ import annotations

import json
from typing import Final, Literal

__all__ = ["HEAD_SIZE", "Content", "foreign_kind", "recognised"]

Content = Literal["empty", "lines", "list", "object", "text"]

HEAD_SIZE: Final = 64 * 1024
_LINE_SUFFIXES = (".jsonl", ".ndjson")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_LINES_LOOKED_AT = 10
_PAGE_BEGINS = (b"<!doctype html", b"<html")
_SIGNATURES: Final = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"SQLite format 3\x00", "an SQLite database"),
)


def foreign_kind(head: bytes) -> str | None:
    """Return what a file is that cannot be a trace, such as a picture or an error page; None for other text.

    Args:
        head: The beginning of the file.

    Example:
        >>> foreign_kind(b"GIF89a..."), foreign_kind(b"<html>502</html>"), foreign_kind("naïve".encode())
        ('a GIF picture', 'an HTML page', None)
    """
    named = next((kind for signature, kind in _SIGNATURES if head.startswith(signature)), None)
    if named is not None:
        return named
    if head.startswith(_UTF_16):
        return None
    if head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:20].lower().startswith(_PAGE_BEGINS):
        return "an HTML page"
    text = head.decode("utf-8", "replace")
    strange = sum(character == "\ufffd" or (character < " " and character not in "\t\n\r\f\x1b") for character in text)
    return "binary data" if "\x00" in text or strange * 10 > len(text) else None


def recognised(head: bytes, suffix: str, *, is_whole: bool) -> Content:
    """Return what a text file holds.

    Args:
        head: The beginning of the file.
        suffix: The ending of its name, in lower case.
        is_whole: Whether the head is the whole file.

    Example:
        >>> recognised(b'{"task": 1}\\n{"task": 2}\\n', ".log", is_whole=True)
        'lines'
        >>> recognised(b'[{"role": "user"}]', "", is_whole=True), recognised(b"[INFO] go", ".log", is_whole=True)
        ('list', 'text')
    """
    body = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not body:
        return "empty" if is_whole else "text"
    if suffix in _LINE_SUFFIXES or _holds_lines(body, is_whole=is_whole):
        return "lines"
    if body[:1] not in b"{[":
        # Alone in a file, `null` is JSON whatever the file is called; nothing can be learned from it.
        return "object" if suffix == ".json" or (is_whole and _is_json(body)) else "text"
    if suffix != ".json" and not _begins_json(body):
        return "text"
    return "list" if body[:1] == b"[" else "object"


def _holds_lines(body: bytes, *, is_whole: bool) -> bool:
    """Whether most of the first lines are JSON objects or lists; one line alone is a document."""
    lines = body.split(b"\n")
    if not is_whole:
        lines = lines[:-1]  # the head may end inside of it
    looked_at = [line for line in lines if line.strip()][:_LINES_LOOKED_AT]
    is_one_document = is_whole and len(looked_at) == 1
    return not is_one_document and sum(map(_is_record, looked_at)) * 2 > len(looked_at)


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body, parse_int=float)  # `int` refuses long numbers
    except (ValueError, RecursionError):
        return False
    return True


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def _begins_json(body: bytes) -> bool:
    """Whether what follows the first bracket can be a record; `[2026-01-01] go` and `[INFO] go` are text."""
    after = body[1:].lstrip()[:1]
    return after in (b'"}' if body[:1] == b"{" else b'{["]')
