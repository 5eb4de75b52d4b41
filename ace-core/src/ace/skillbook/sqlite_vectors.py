"""The vectors of a SQLite skillbook, several to a row.

One vector fills a third of a database page, so with a row for each a quarter of the file would be air. A block
of sixteen fills its pages, and is still rewritten in no time when one of its vectors changes.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.events import LARGEST_COUNT

TABLES: Final = (
    "CREATE TABLE vector_block (number INTEGER PRIMARY KEY, layout TEXT NOT NULL, vectors BLOB NOT NULL)",
    "CREATE TABLE vector_place (id TEXT PRIMARY KEY, block INTEGER NOT NULL) WITHOUT ROWID",
)
"""`layout` holds the ids of a block in order, each with the length of its vector in bytes."""

BLOCK_SIZE: Final = 16
_IDS_A_QUERY: Final = 500

Block = dict[str, bytes]
"""Vectors by skill id."""


def read_vectors(connection: sqlite3.Connection) -> Block:
    """Return all vectors by skill id."""
    found: Block = {}
    for number, layout, vectors in connection.execute("SELECT number, layout, vectors FROM vector_block"):
        found |= _unpacked(number, layout, vectors)
    return found


def vectors_of(connection: sqlite3.Connection, ids: Iterable[str]) -> Block:
    """Return those of the vectors that there are."""
    places = _places(connection, list(ids))
    blocks = {number: _read_block(connection, number) for number in set(places.values())}
    return {id: _vector_in(blocks[number], number, id) for id, number in places.items()}


def delete_vectors(connection: sqlite3.Connection) -> None:
    """Delete all vectors."""
    connection.execute("DELETE FROM vector_block")
    connection.execute("DELETE FROM vector_place")


def write_vectors(connection: sqlite3.Connection, changes: Mapping[str, bytes | None]) -> None:
    """Set vectors by skill id, and delete those that are None. A block in which nothing changes is not written."""
    places = _places(connection, list(changes))
    new = {id: vector for id, vector in changes.items() if vector is not None and id not in places}
    if not places and not new:
        return
    blocks: dict[int, Block] = {}
    touched: dict[int, Block] = {}
    for id, number in places.items():
        if number not in blocks:
            blocks[number] = _read_block(connection, number)
        block, vector = blocks[number], changes[id]
        if vector == _vector_in(block, number, id):
            continue
        touched[number] = block
        if vector is None:
            del block[id]
        else:
            block[id] = vector
    gone = [(id,) for id in places if changes[id] is None]
    connection.executemany("DELETE FROM vector_place WHERE id = ?", gone)
    if new:
        touched |= _placed(connection, new, touched)
    _write_blocks(connection, touched)


def move_single_vectors(connection: sqlite3.Connection) -> None:
    """Move the vectors of an older file, which had a row for each, into blocks."""
    write_vectors(connection, dict(connection.execute("SELECT id, vector FROM embedding")))
    connection.execute("DROP TABLE embedding")


def _placed(connection: sqlite3.Connection, new: Block, touched: Mapping[int, Block]) -> dict[int, Block]:
    """Give new vectors a place: in the last block while it has room, then in new ones. Returns those blocks."""
    number = connection.execute("SELECT coalesce(max(number), 0) FROM vector_block").fetchone()[0]
    if not isinstance(number, int) or not 0 <= number <= LARGEST_COUNT:
        raise _damaged(number, "this is not the number of a block")
    last = touched.get(number) if number in touched else _read_block(connection, number)
    blocks = {number: last} if last else {}
    for id, vector in new.items():
        if number not in blocks or len(blocks[number]) >= BLOCK_SIZE:
            number += 1
            blocks[number] = {}
        blocks[number][id] = vector
    rows = [(id, number) for number, block in blocks.items() for id in block if id in new]
    connection.executemany("INSERT INTO vector_place VALUES (?, ?)", sorted(rows))
    return blocks


def _write_blocks(connection: sqlite3.Connection, blocks: Mapping[int, Block]) -> None:
    empty = [(number,) for number, block in blocks.items() if not block]
    connection.executemany("DELETE FROM vector_block WHERE number = ?", empty)
    rows = ((number, _layout(block), b"".join(block.values())) for number, block in blocks.items() if block)
    connection.executemany("INSERT OR REPLACE INTO vector_block VALUES (?, ?, ?)", rows)


def _places(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """Return the block of each of the ids that has a vector."""
    found: dict[str, int] = {}
    for start in range(0, len(ids), _IDS_A_QUERY):
        some = ids[start : start + _IDS_A_QUERY]
        marks = ",".join("?" * len(some))
        found |= connection.execute(f"SELECT id, block FROM vector_place WHERE id IN ({marks})", some)
    return found


def _read_block(connection: sqlite3.Connection, number: int) -> Block:
    row = connection.execute("SELECT layout, vectors FROM vector_block WHERE number = ?", (number,)).fetchone()
    return {} if row is None else dict(_unpacked(number, *row))


def _layout(block: Block) -> str:
    return json.dumps([[id, len(vector)] for id, vector in block.items()], separators=(",", ":"), ensure_ascii=False)


def _vector_in(block: Block, number: int, id: str) -> bytes:
    if id not in block:
        raise _damaged(number, f"there is no vector of {id!r}")
    return block[id]


def _unpacked(number: int, layout: str, vectors: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        entries = json.loads(layout)
        ends = list(itertools.accumulate(size for _, size in entries))
        for (id, size), end in zip(entries, ends, strict=True):
            if not isinstance(id, str) or size < 0 or not isinstance(vectors, bytes):
                raise ValueError(f"{size!r} is not the length of a vector")
            yield id, vectors[end - size : end]
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(number, f"the layout cannot be read: {error}") from error
    if len(vectors) != (ends[-1] if ends else 0):
        raise _damaged(number, f"it has {len(vectors)} bytes of vectors, and its layout tells of others")


def _damaged(number: object, reason: str) -> SkillbookFileError:
    return SkillbookFileError(f"the store is damaged: {reason}", place=f"vector_block {number!r}")
