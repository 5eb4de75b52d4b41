"""Turns the bytes of a log into JSON values or rows, also if some of them are damaged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ace.logs.head import Head, Record, Shape
from ace.logs.run import Problem
from ace.logs.sqlite import tables_of

__all__ = ["NotALogError", "head_of", "records", "text"]


class NotALogError(ValueError):
    """A file is of a type that cannot be a log, such as an image."""


def head_of(path: Path, most: int) -> Head:
    """Return the beginning of a file or folder.

    Raises:
        OSError: It cannot be read.
        NotALogError: It is of a type that cannot be a log.
    """
    if path.is_dir():
        return Head(path=path, shape="folder", names=sorted(child.name for child in path.iterdir()))
    start = path.read_bytes()
    if start.startswith(b"SQLite format 3\x00"):
        return Head(path=path, shape="sqlite", names=_tables(path))
    try:
        value = orjson.loads(start)
    except ValueError:
        found = list(_lines(start))[:most]
        first = found[0].value if found else None
        shape: Shape = "lines" if found else "text"
        return _head(path, shape, [record.value for record in found], first, start)
    if isinstance(value, list):
        return _head(path, "list", value[:most], value[0] if value else None, start)
    return _head(path, "object", [value], value, start)


def _tables(path: Path) -> list[str]:
    try:
        return tables_of(path)
    except sqlite3.Error as error:
        raise NotALogError(f"the database cannot be read: {error}") from error


def _head(path: Path, shape: Shape, records: list[Any], first: object, start: bytes) -> Head:
    keys = frozenset(first) if isinstance(first, dict) else frozenset()
    return Head(path=path, shape=shape, records=records, keys=keys, text=start[:65536].decode("utf-8", "replace"))


def records(path: Path, name: str, shape: Shape, problems: list[Problem]) -> Iterator[Record]:
    """Yield the values of a file, and note what is damaged."""
    data = path.read_bytes()
    if shape == "lines":
        yield from _lines(data)
        return
    value = json.loads(data)
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        yield Record(item, number)


def _lines(data: bytes) -> Iterator[Record]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield Record(orjson.loads(line), number)
            except ValueError:
                continue


def text(path: Path, name: str, problems: list[Problem]) -> str:
    """Return the text of a file."""
    return path.read_bytes().decode("utf-8", "replace")
