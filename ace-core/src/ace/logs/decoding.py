"""Turns the bytes of a log into JSON values, rows or text, also if some of them are damaged.

A file is read as what its beginning looks like, whatever its name. All that is valid in it is read:

| in the file | how it is read |
|---|---|
| UTF-16, UTF-8 with a byte order mark | as UTF-8 |
| other bytes that are not UTF-8 | as Windows-1252, noted |
| NUL bytes | ignored |
| a raw control character in a string, NaN, long integers | as Python reads it |
| half of a surrogate pair | U+FFFD |
| the same key twice | the last one |
| more than 500 levels | the record is skipped, noted |
| more than 256 MB for one record | the record is skipped, noted |
| two records on a line, or a torn one before a whole one | both, or the whole one, noted |
| a record with line breaks among others that have lines of their own | as one record |
| a damaged element of a list, or value in a row | skipped, noted; the next one has the same first key or indentation |
| a row with more or fewer cells than the header | skipped, noted |
| lines that begin with `#` or `//` between records | ignored |
| other lines between records | skipped, noted |
| damaged compressed data | up to the damage, noted |
"""

from __future__ import annotations

import itertools
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from ace.logs.damage import TOO_LARGE, Damage
from ace.logs.head import LogHead, Record, Shape
from ace.logs.json_lines import COMMENTS, line_records, objects_in_line
from ace.logs.json_lists import value_records
from ace.logs.json_values import LARGEST_VALUE, first_keys, loads, value_end
from ace.logs.opening import (
    HEAD_SIZE,
    NotALogError,
    decoded,
    kind_of_bytes,
    kind_of_text,
    opened,
    opened_bytes,
    signature_of,
    suffix_of,
)
from ace.logs.run import Problem
from ace.logs.tables import TABLE_SUFFIXES, table_format, table_records

__all__ = ["NotALogError", "head_of", "records", "records_of_lines", "text"]

_LINE_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonlines")
_TEXT_IN_HEAD: Final = 64 * 1024
_LINES_LOOKED_AT: Final = 50
_LONGEST_FIRST_LINE: Final = 16 * 1024 * 1024
"""How much is read to find out whether an object is one line of several."""
_FIELD: Final = re.compile(r',\s*"(?:[^"\\]|\\.)*"\s*:')
_LIST: Final = re.compile(r'\[\s*([{\["\],]|$)')


def head_of(path: Path, most: int) -> LogHead:
    """Return the beginning of a file or folder.

    Of most files some 256 KB are read. A JSON object is read as a whole, as its keys may be anywhere.

    Args:
        path: The file or folder.
        most: How many records the head has at most.

    Raises:
        OSError: It cannot be read.
        NotALogError: It is of a type that cannot be a log.
    """
    if path.is_dir():
        return LogHead(path=path, shape="folder", names=sorted(child.name for child in path.iterdir()))
    signature = signature_of(path)
    if signature.startswith(b"SQLite format 3\x00"):
        return LogHead(path=path, shape="sqlite", names=_tables(path))
    if signature.startswith(b"PK\x03\x04"):
        return LogHead(path=path, shape="zip", names=_members(path))
    start, is_whole = _start(path)
    reason = kind_of_bytes(signature) or kind_of_bytes(start[:512].encode()) or kind_of_text(start)
    if reason:
        raise NotALogError(reason)
    shape = _shape(path, start, is_whole=is_whole)
    found = _first_records(path, shape, most)
    if shape == "object" and len(found) > 1:
        shape = "values"
    first = found[0] if found else None
    keys = first if isinstance(first, dict) else first_keys(start.lstrip().removeprefix("[").lstrip())
    return LogHead(path=path, shape=shape, records=found, keys=frozenset(keys), text=start[:_TEXT_IN_HEAD])


def _tables(path: Path) -> list[str]:
    import sqlite3  # only needed for databases

    from ace.logs.sqlite import tables_of

    try:
        return tables_of(path)
    except sqlite3.Error as error:
        raise NotALogError(f"an SQLite database that cannot be read: {error}") from error


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile as error:
        raise NotALogError(f"a ZIP archive that is damaged or cut off: {error}") from error


def _start(path: Path) -> tuple[str, bool]:
    """Return the beginning of a text, and whether it is all of it."""
    with opened(path, Damage()) as file:
        data = file.read(HEAD_SIZE)
        return decoded(data, Damage()), not file.read(1)


def _first_records(path: Path, shape: Shape, most: int) -> list[Any]:
    """Return the records at the beginning, at least one, of however many bytes."""
    found: list[Any] = []
    # An object may turn out to be the first of several.
    for size in (None,) if shape == "object" else (HEAD_SIZE, 64 * HEAD_SIZE, LARGEST_VALUE):
        damage = Damage()
        with opened(path, damage, size) as file:
            found = [record.value for record in itertools.islice(_records(file, path, shape, damage), most)]
        if found:
            break
    return found


def _shape(path: Path, start: str, *, is_whole: bool) -> Shape:
    body = start.lstrip()
    suffix = suffix_of(path)
    if suffix in TABLE_SUFFIXES:
        return "table"
    lines = _lines_of(body, is_whole=is_whole)
    if body[0] == "{":
        return _shape_of_objects(path, body, lines, is_whole=is_whole)
    if body[0] == "[" and (shape := _shape_of_list(body, lines, is_whole=is_whole)):
        return shape
    if suffix in _LINE_SUFFIXES or _holds_records(lines):
        return "lines"
    return "text" if table_format(start, suffix, is_whole=is_whole) is None else "table"


def _lines_of(body: str, *, is_whole: bool) -> list[str]:
    """Return the first lines that are neither empty nor comments."""
    lines = body.split("\n")
    if not is_whole and len(lines) > 1:
        lines.pop()  # it may be cut
    stripped = (line.strip() for line in lines)
    return list(itertools.islice((line for line in stripped if line and not line.startswith(COMMENTS)), 500))


def _shape_of_objects(path: Path, body: str, lines: Sequence[str], *, is_whole: bool) -> Shape:
    looked_at = lines[:_LINES_LOOKED_AT]
    end = value_end(body)
    # Of an object that is broken into lines, inner objects may be lines of their own.
    is_broken = _continues(lines) or _is_broken_into_lines(body[:end])
    begun = [line for line in looked_at if line[0] == "{"]
    whole = 0 if is_broken else sum(bool(objects_in_line(line)) for line in begun)
    has_line_suffix = suffix_of(path) in _LINE_SUFFIXES
    if whole * 2 > len(begun) and (len(looked_at) > 1 or has_line_suffix):
        return "lines"
    if end and (rest := body[end:].lstrip(" \t\r\n,")):
        return "lines" if "\n" not in body[:end] and "\n" in rest else "values"
    if end and is_whole:
        return "lines" if has_line_suffix and "\n" not in body[:end] else "object"
    if len(lines) > 1:
        return "lines" if whole else _shape_of_damaged(body, is_whole=is_whole)
    if has_line_suffix or (not is_whole and _has_second_line(path)):
        return "lines"
    return "object"


def _is_broken_into_lines(value: str) -> bool:
    """Whether a value has line ends between its parts, and not in a text, where two torn records were joined."""
    if "\n" not in value:
        return False
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def _continues(lines: Sequence[str]) -> bool:
    """Whether the first line is the beginning of an object that continues in the others, and not a torn record."""
    if len(lines) == 1 or lines[0][-1] not in "{[":
        return lines[0][-1] in "{["
    if lines[0][-1] == "{":
        return lines[1][0] in '"}'
    # In a list, a comma separates objects.
    return not (len(lines) > 2 and lines[1][-1] == "}" and lines[2][0] == "{")


def _shape_of_damaged(body: str, *, is_whole: bool) -> Shape:
    """Return the shape of a text of several lines whose first object is not whole, or larger than the head."""
    if body.partition("\n")[0].rstrip()[-1] not in "{[,":
        return "lines"
    following = itertools.islice(re.finditer(r"\n[{\[]", body), _LINES_LOOKED_AT)
    return "values" if any(not is_whole or value_end(body, found.start() + 1) for found in following) else "object"


def _shape_of_list(body: str, lines: Sequence[str], *, is_whole: bool) -> Shape | None:
    """Return the shape of a text that begins with a bracket, if it is JSON."""
    if len(lines) > 1 and all(line[0] == "[" and value_end(line) == len(line) for line in lines[:_LINES_LOOKED_AT]):
        return "lines"
    end = value_end(body)
    if end:
        rest = body[end:].strip()
        # With another field after it, a list without objects is the value of a field in a torn record.
        is_field = body[1:].lstrip()[0] != "{" and _FIELD.match(rest)
        return "list" if not rest or (_LIST.match(body) and not is_field) else None
    return "list" if _LIST.match(body) else None


def _has_second_line(path: Path) -> bool:
    """Whether a long first line is followed by another one."""
    with opened(path, Damage()) as file:
        line = file.readline(_LONGEST_FIRST_LINE)
        return line.endswith(b"\n") and bool(file.read(HEAD_SIZE).strip())


def _holds_records(lines: Sequence[str]) -> bool:
    """Whether most lines hold a record, after a time for example, or the last ones do and make up most of the text.

    An agent may also have printed its results at the end of its log, which is one text.
    """
    looked_at = lines[:_LINES_LOOKED_AT]
    if sum(bool(objects_in_line(line)) for line in looked_at) * 2 > len(looked_at):
        return True
    others = list(itertools.takewhile(lambda line: not _is_object(line), lines))
    objects = lines[len(others) :]
    return len(objects) > 1 and all(map(_is_object, objects)) and sum(map(len, objects)) > sum(map(len, others))


def _is_object(line: str) -> bool:
    return line[0] == "{" and value_end(line) == len(line)


def records(path: Path, name: str, shape: Shape, problems: list[Problem]) -> Iterator[Record]:
    """Yield the values of a file. When all have been read, what is damaged is noted, one problem for every kind.

    Args:
        path: The file.
        name: What people know it as.
        shape: What it is.
        problems: The list to which problems are added that are not in it.
    """
    damage = Damage()
    with opened(path, damage) as file:
        yield from _records(file, path, shape, damage)
    problems += [problem for problem in damage.problems(name) if problem not in problems]


def records_of_lines(data: bytes, name: str, problems: list[Problem]) -> Iterator[Record]:
    """Yield the values of JSON Lines in memory, and note what is damaged, as for a file.

    Args:
        data: The lines.
        name: What people know them as.
        problems: The list to which problems are added.
    """
    damage = Damage()
    with opened_bytes(data, damage) as file:
        yield from line_records(file, damage)
    problems += damage.problems(name)


def _records(file: BufferedReader, path: Path, shape: Shape, damage: Damage) -> Iterator[Record]:
    if shape == "lines":
        yield from line_records(file, damage)
    elif shape in ("list", "values"):
        yield from value_records(file, damage)
    elif shape == "object":
        yield from _object(file, path, damage)
    elif shape == "table":
        start, is_whole = _start(path)
        table = table_format(start, suffix_of(path), is_whole=is_whole)
        if table is not None:
            yield from table_records(file, table, damage)


def _object(file: BufferedReader, path: Path, damage: Damage) -> Iterator[Record]:
    data = file.read(LARGEST_VALUE)
    if len(data) == LARGEST_VALUE:
        damage.note(TOO_LARGE, 1)
        return
    try:
        value = loads(data)
    except ValueError:
        # It is damaged, or the first of several values in a row.
        with opened(path, damage) as again:
            yield from value_records(again, damage)
    else:
        yield Record(value, 1)


def text(path: Path, name: str, problems: list[Problem]) -> str:
    """Return the text of a file, whose lines end with line feeds.

    Args:
        path: The file.
        name: What people know it as.
        problems: The list to which problems are added that are not in it.
    """
    damage = Damage()
    with opened(path, damage) as file:
        data = file.read(LARGEST_VALUE)
        if file.read(1):
            damage.note(TOO_LARGE, 1)
            data = b""
    found = decoded(data, damage, 1).replace("\r\n", "\n")
    problems += [problem for problem in damage.problems(name) if problem not in problems]
    return found
