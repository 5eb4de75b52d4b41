"""The tables of a SQLite skillbook, and how an older file becomes a newer one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType
from typing import Final

from ace.durable_file import create_private
from ace.skillbook import sqlite_vectors
from ace.skillbook.errors import SkillbookFileError

APPLICATION_ID: Final = 0x41434542  # "ACEB"

Statement = str | Callable[[sqlite3.Connection], None]
"""SQL, or a function where SQL is not enough."""

MIGRATIONS: Final[tuple[tuple[Statement, ...], ...]] = (
    (
        """CREATE TABLE head (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            version INTEGER NOT NULL, next_id INTEGER NOT NULL,
            id_floor INTEGER NOT NULL, next_position INTEGER NOT NULL)""",
        "INSERT INTO head VALUES (1, 0, 1, 1, 0)",
        """CREATE TABLE skill (
            id TEXT PRIMARY KEY, position INTEGER NOT NULL, data TEXT NOT NULL, embedding BLOB)""",
        """CREATE TABLE decision (
            first_id TEXT NOT NULL, second_id TEXT NOT NULL, data TEXT NOT NULL,
            PRIMARY KEY (first_id, second_id)) WITHOUT ROWID""",
        """CREATE TABLE event (
            version INTEGER PRIMARY KEY, at TEXT NOT NULL, author TEXT NOT NULL,
            run TEXT, epoch INTEGER, sample TEXT,
            operations TEXT NOT NULL, skipped TEXT NOT NULL,
            UNIQUE (run, epoch, sample))""",
    ),
    (
        """CREATE TABLE progress (
            run TEXT NOT NULL, epoch INTEGER NOT NULL, sample TEXT NOT NULL,
            at TEXT NOT NULL, note TEXT NOT NULL,
            UNIQUE (run, epoch, sample))""",
        """CREATE TABLE answer (
            key TEXT PRIMARY KEY, answer TEXT NOT NULL, at TEXT NOT NULL, details TEXT NOT NULL)
            WITHOUT ROWID""",
    ),
    (
        "CREATE TABLE embedding (id TEXT PRIMARY KEY, vector BLOB NOT NULL)",
        "INSERT INTO embedding SELECT id, embedding FROM skill WHERE embedding IS NOT NULL",
        "ALTER TABLE skill RENAME TO old_skill",
        "CREATE TABLE skill (id TEXT PRIMARY KEY, position INTEGER NOT NULL, data TEXT NOT NULL)",
        "INSERT INTO skill SELECT id, position, data FROM old_skill ORDER BY position",
        "DROP TABLE old_skill",
    ),
    (*sqlite_vectors.TABLES, sqlite_vectors.move_single_vectors),
)
"""The statements that lead from each version to the next. `PRAGMA user_version` counts the versions."""


COLUMNS: Final = {
    "head": "version, next_id, id_floor, next_position",
    "skill": "id, position, data",
    "decision": "first_id, second_id, data",
    "event": "version, at, author, run, epoch, sample, operations, skipped",
    "progress": "run, epoch, sample, at, note",
    "answer": "key, answer, at, details",
    "vector_block": "number, layout, vectors",
    "vector_place": "id, block",
}
"""What is read and written of each table of the newest version."""

_WORDS: Final = {bytes: "bytes", str: "a text", int: "a whole number", float: "a fraction", NoneType: "nothing"}
"""The types of SQLite's values."""


def bring_up_to_date(
    connection: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Sequence[Statement]] = MIGRATIONS,
    *,
    create: bool = True,
) -> bool:
    """Create the tables of an empty file, or migrate an older file after a backup.

    Args:
        connection: The open file.
        path: Its path.
        migrations: The statements that lead from each version to the next.
        create: Whether an empty file gets tables, rather than being left as it is.

    Returns:
        Whether the file has tables now.

    Raises:
        SkillbookFileError: If the file is a database of something else, or of a newer ace.
    """
    connection.execute("BEGIN")  # else another process may create the tables between one question and the next
    try:
        version = _version(connection, path, len(migrations))
    finally:
        connection.rollback()
    if version == len(migrations) or (version == 0 and not create):
        return version > 0
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path, len(migrations))
        if 0 < version < len(migrations):
            _backup(path, version)
        for statements in migrations[version:]:
            for statement in statements:
                if isinstance(statement, str):
                    connection.execute(statement)
                else:
                    statement(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return True


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of the newest version that lacks a table or a column, before anything relies on it.

    Raises:
        SkillbookFileError: If one is missing.
    """
    try:
        for table, columns in COLUMNS.items():
            connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        raise SkillbookFileError(f"the store is damaged: {error}", path=path) from error


def check_values(table: str, rows: Sequence[tuple[object, ...]], **types: type | tuple[type, ...]) -> None:
    """Refuse values of types that this store does not write: SQLite takes any value in any column.

    Args:
        table: The table that the rows were read from.
        rows: The rows.
        **types: What each column of the rows may hold, in their order.

    Raises:
        SkillbookFileError: A value has another type; the error names the column.
    """
    for (column, allowed), values in zip(types.items(), zip(*rows, strict=True), strict=False):
        for found in set(map(type, values)):
            if not issubclass(found, allowed):
                raise damaged(f"it holds {_WORDS[found]}", f"{table}.{column}")


def damaged(reason: str, place: str) -> SkillbookFileError:
    """Return the error of a store that does not hold what this ace writes.

    Args:
        reason: What is wrong.
        place: The table, or its column.
    """
    return SkillbookFileError(f"the store is damaged: {reason}", place=place)


def blank_tables() -> sqlite3.Connection:
    """Return the tables of a new store in memory, to be read in the place of a file that has none yet."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    bring_up_to_date(connection, Path(":memory:"))
    return connection


def _version(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    """Return the version of the file: 0 for an empty one."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application or version or tables:
            raise SkillbookFileError("this is a database of another program", path=path)
        return 0
    if version > newest:
        raise SkillbookFileError(
            f"this database has version {version}, and this ace reads up to version {newest}; update ace",
            path=path,
        )
    return version


def _backup(path: Path, version: int) -> None:
    """Copy the committed state to a file beside it. An earlier backup of this version stays."""
    target = path.with_name(f"{path.name}.version-{version}.backup")
    if target.exists():
        return
    unfinished = target.with_name(f"{target.name}.tmp")
    try:
        unfinished.unlink(missing_ok=True)
        create_private(unfinished)
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(unfinished)) as copy,
        ):
            source.backup(copy)
        unfinished.replace(target)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise SkillbookFileError(
            f"the store is of an older ace, and no backup can be made before it is brought up to date: {error}",
            path=path,
        ) from error
