"""The file of an SQLite skillbook: its tables, how it is opened and migrated, and how threads and forks share it."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Final, final

from ace._internal.atomic_file import create_private, make_folder, own_file
from ace._internal.decoding import LARGEST_COUNT
from ace.skillbook.errors import SkillbookFileError, SkillbookStoreError, readable

VECTOR_TABLES: Final = (
    "CREATE TABLE vector_block (number INTEGER PRIMARY KEY, layout TEXT NOT NULL, vectors BLOB NOT NULL)",
    "CREATE TABLE vector_place (id TEXT PRIMARY KEY, block INTEGER NOT NULL) WITHOUT ROWID",
)
"""`layout` contains the ids of a block in order, each with the length of its vector in bytes."""

# A vector fills a third of a database page, so with one row per vector a quarter of the file would be empty. A block of
# sixteen fills its pages, and is still cheap to rewrite when one of its vectors changes.
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
    """Return the existing vectors among the given ids."""
    places = _places(connection, list(ids))
    blocks = {number: _read_block(connection, number) for number in set(places.values())}
    return {id: _vector_in(blocks[number], number, id) for id, number in places.items()}


def delete_vectors(connection: sqlite3.Connection) -> None:
    """Delete all vectors."""
    connection.execute("DELETE FROM vector_block")
    connection.execute("DELETE FROM vector_place")


def write_vectors(connection: sqlite3.Connection, changes: Mapping[str, bytes | None]) -> None:
    """Set vectors by skill id, and delete those that are None. Unchanged blocks are not written."""
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
    """Move the vectors of an older file, which had one row per vector, into blocks."""
    write_vectors(connection, dict(connection.execute("SELECT id, vector FROM embedding")))
    connection.execute("DROP TABLE embedding")


def _placed(connection: sqlite3.Connection, new: Block, touched: Mapping[int, Block]) -> dict[int, Block]:
    """Assign new vectors to the last block while it has room, then to new blocks. Returns those blocks."""
    number = connection.execute("SELECT coalesce(max(number), 0) FROM vector_block").fetchone()[0]
    if not isinstance(number, int) or not 0 <= number <= LARGEST_COUNT:
        raise _damaged_block(number, "invalid block number")
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
        raise _damaged_block(number, f"the vector of {id!r} is missing")
    return block[id]


def _unpacked(number: int, layout: str, vectors: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        entries = json.loads(layout)
        ends = list(itertools.accumulate(size for _, size in entries))
        for (id, size), end in zip(entries, ends, strict=True):
            if not isinstance(id, str) or size < 0 or not isinstance(vectors, bytes):
                raise ValueError(f"{size!r} is not a valid vector length")
            yield id, vectors[end - size : end]
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged_block(number, f"the layout cannot be read: {error}") from error
    if len(vectors) != (ends[-1] if ends else 0):
        raise _damaged_block(number, f"it has {len(vectors)} bytes of vectors, which does not match its layout")


def _damaged_block(number: object, reason: str) -> SkillbookFileError:
    return damaged(reason, f"vector_block {number!r}")


APPLICATION_ID: Final = 0x41434542  # "ACEB"

Statement = str | Callable[[sqlite3.Connection], None]
"""SQL, or a function if SQL is not sufficient."""

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
    (*VECTOR_TABLES, move_single_vectors),
)
"""The migrations from each version to the next. `PRAGMA user_version` is the version."""


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
"""The columns that are read and written, by table of the newest version."""

_TYPES: Final = {bytes: "a BLOB", str: "TEXT", int: "an INTEGER", float: "a REAL", NoneType: "NULL"}
"""SQLite's names for the types of values."""


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
        migrations: The statements that migrate from each version to the next.
        create: Whether to create tables in an empty file.

    Returns:
        Whether the file has tables now.

    Raises:
        SkillbookFileError: If the database belongs to another program, or to a newer version of ACE.
    """
    connection.execute("BEGIN")  # otherwise, another process may create the tables between two queries
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
    """Reject a file of the newest version that lacks a table or a column.

    Raises:
        SkillbookFileError: If one is missing.
    """
    try:
        for table, columns in COLUMNS.items():
            connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        raise SkillbookFileError(f"the store is damaged: {error}", path=path) from error


def check_values(table: str, rows: Sequence[tuple[object, ...]], **types: type | tuple[type, ...]) -> None:
    """Reject values of types that this store does not write: SQLite accepts any value in any column.

    Args:
        table: The table that the rows were read from.
        **types: The allowed types of each column of the rows, in order.

    Raises:
        SkillbookFileError: If a value has another type; the error names the column.
    """
    for (column, allowed), values in zip(types.items(), zip(*rows, strict=True), strict=False):
        for found in set(map(type, values)):
            if not issubclass(found, allowed):
                raise damaged(f"it contains {_TYPES[found]}", f"{table}.{column}")


def damaged(reason: str, place: str) -> SkillbookFileError:
    """Return the error for a damaged store.

    Args:
        reason: The problem.
        place: The table or column.
    """
    return SkillbookFileError(f"the store is damaged: {reason}", place=place)


def blank_tables() -> sqlite3.Connection:
    """Return an in-memory database with the empty tables of a store, to read instead of a file that has none yet."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    bring_up_to_date(connection, Path(":memory:"))
    return connection


def _version(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    """Return the version of the file; 0 if it is empty."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application or version or tables:
            raise SkillbookFileError("this database belongs to another program", path=path)
        return 0
    if version > newest:
        raise SkillbookFileError(
            f"this database has version {version}, but this version of ace reads versions up to {newest}; upgrade ace",
            path=path,
        )
    return version


def _backup(path: Path, version: int) -> None:
    """Copy the committed state to a file in the same folder. An earlier backup of this version is kept."""
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
            f"the store was written by an older version of ace and must be upgraded, but the backup failed: {error}",
            path=path,
        ) from error


LARGEST_ROW: Final = 256_000_000
"""The largest row that is read or written, in bytes."""
BUSY_SECONDS: Final = 60
"""How long a writer waits for the others. Each of them locks the file for about a millisecond."""
_SECONDS_BETWEEN_TRIES: Final = 0.005


def open_connection(path: Path) -> sqlite3.Connection:
    """Open the file, or create it with the newest tables; a new file is readable only by its owner.

    An existing file is only read, unless an older version of ACE wrote it: an empty file remains empty, and its journal
    mode is not changed, until `prepare_to_write`. A file on a read-only file system can be read, but not changed.

    Raises:
        SkillbookFileError: If it cannot be opened, or is not a skillbook. It is not changed.
    """
    frozen = _is_frozen(path)
    address = f"{path.as_uri()}?mode=ro&immutable=1" if frozen else path
    with _naming_errors(path):
        is_new = not frozen and not path.exists()
        if is_new:
            create_private(path)
        connection = sqlite3.connect(
            address, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=frozen
        )
        try:
            _distrust(connection, path)
            if is_new:
                prepare_to_write(connection, path)
            elif bring_up_to_date(connection, path, create=False):
                check_tables(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return connection


def _distrust(connection: sqlite3.Connection, path: Path) -> None:
    """Reject a file that runs code of its own: it may come from a stranger.

    A trigger changes what we write, a view can be endless, and a huge row takes minutes to read.

    Raises:
        SkillbookFileError: If it has one.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_ROW)
    # A view named sqlite_master would shadow nothing: names that begin with sqlite_ are reserved.
    found = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') "
        "OR (type = 'table' AND sql LIKE 'CREATE VIRTUAL%')"
    ).fetchone()
    if found is not None:
        kind, name = found
        what = "virtual table" if kind == "table" else kind
        raise SkillbookFileError(
            f"it has a {what}, {name!r:.80}, which no skillbook has and which could run code; export its skills as "
            "JSON where it comes from, and import them",
            path=path,
        )


def has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether an open file contains a store; another process may have created its tables in the meantime.

    Raises:
        SkillbookFileError: If it is not a skillbook.
    """
    with _naming_errors(path):
        return bring_up_to_date(connection, path, create=False)


def prepare_to_write(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of an empty file, and switch to WAL mode. Needed once for each connection.

    Raises:
        SkillbookFileError: If it is not a skillbook.
    """
    with _naming_errors(path):
        if not _is_frozen(path):
            bring_up_to_date(connection, path)
            _write_ahead(connection)


@contextlib.contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SkillbookFileError(f"the store cannot be opened: {error}", path=path) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # an error message may quote bytes that are not UTF-8
        raise SkillbookFileError(f"not an SQLite skillbook: {error}", path=path) from error
    except OSError as error:
        raise SkillbookFileError(f"the store cannot be opened: {error.strerror}", path=path) from error


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode. SQLite does not wait for another process that is doing the same."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _is_frozen(path: Path) -> bool:
    """Return whether neither the file nor the log and index files that SQLite needs can be written."""
    if not hasattr(os, "statvfs") or not path.is_file():
        return False
    file = path.resolve()
    log = file.with_name(f"{file.name}-wal")
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY) and not (log.exists() and log.stat().st_size)


@final
class SqliteFile:
    """One connection, shared by all threads. After a fork, the child opens its own connection.

    Args:
        path: The absolute path of the file, which is created together with its folder if missing.

    Raises:
        SkillbookFileError: If the file is not a skillbook. It is not changed.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.path = own_file(path)
        except OSError as error:
            raise SkillbookFileError(f"the store cannot be opened: {error.strerror}", path=path) from error
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._inherited: list[sqlite3.Connection] = []
        self._blank: sqlite3.Connection | None = None
        """Used instead of a file without tables as long as it is only read."""
        self._has_tables = False
        """Whether the file is known to contain a store; otherwise it is empty."""
        self._is_prepared = False
        """Whether the connection is ready to write."""
        make_folder(path.parent)
        self._connection: sqlite3.Connection | None = self._connect()
        self._opened = _identity(self.path)

    def query(self, query: str, values: Sequence[str | int] = ()) -> list[Any]:
        """Return the rows of a single query."""
        with self._lock, self.naming_errors("cannot be read"):
            return self._reader().execute(query, values).fetchall()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: all queries see the same state."""
        with self._lock, self.naming_errors("cannot be read"):
            connection = self._reader()
            try:  # begins before the transaction, because Ctrl-C may come right after that
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.rollback()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A write transaction."""
        with self._lock, self.naming_errors("could not write the change, which was rolled back"):
            connection = self._writer()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.rollback()
                raise

    def backups(self) -> list[Path]:
        """Return the backups that were made before the format of the file was upgraded."""
        found = self.path.parent.glob(f"{glob.escape(self.path.name)}.version-*.backup")
        return sorted(backup for backup in found if not backup.is_symlink())  # we make none of them as a link

    def rewrite(self) -> None:
        """Write the file anew without what was deleted from it, and empty its write-ahead log.

        A deletion alone leaves texts in unused pages, and in the unused part of pages whose rows were moved. If another
        process is using the log, the last process that closes the file removes it.
        """
        with self._lock, self.naming_errors("could not be rewritten without the texts that were deleted"):
            connection = self._writer()
            connection.execute("VACUUM")
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")

    def close(self) -> None:
        """Close the file. A later query opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            if self._blank is not None:
                self._blank.close()
            self._connection = self._blank = None

    def _connect(self) -> sqlite3.Connection:
        connection = open_connection(self.path)
        self._is_prepared = self._has_tables = False
        # The file is closed when the store is garbage-collected.
        weakref.finalize(self, _close_in_its_process, connection, os.getpid()).atexit = False
        return connection

    def _reader(self) -> sqlite3.Connection:
        """Return the connection to read from: the file, or blank tables as long as the file has none."""
        connection = self._open()
        if not self._has_tables:
            self._has_tables = has_tables(connection, self.path)
        if self._has_tables:
            return connection
        if self._blank is None:
            self._blank = blank_tables()
            weakref.finalize(self, self._blank.close).atexit = False
        return self._blank

    def _writer(self) -> sqlite3.Connection:
        """Return the connection to the file, ready to write."""
        connection = self._open()
        if not self._is_prepared:
            prepare_to_write(connection, self.path)
            self._is_prepared = True
        return connection

    def _open(self) -> sqlite3.Connection:
        """Return the connection of this process: one that was inherited through a fork must not be used."""
        connection = self._connection
        if connection is None or self._process != os.getpid():
            if connection is not None:
                self._inherited.append(connection)  # closing it would disturb the process it belongs to
            connection = self._connection = self._connect()
            self._opened = _identity(self.path)
            self._process = os.getpid()
        elif _identity(self.path) != self._opened:
            raise SkillbookStoreError(
                f"the store {self.path} was deleted, or another file took its place, while it was open, so "
                "what is written now would be lost; save the skillbook to another path"
            )
        return connection

    @contextlib.contextmanager
    def naming_errors(self, what: str) -> Iterator[None]:
        """Raise errors of SQLite as those of a store.

        Args:
            what: What could not be done, as the rest of a sentence about the file.
        """
        try:
            yield
        except sqlite3.DataError as error:
            raise SkillbookStoreError(
                f"the store {self.path} {what}: one of its rows has more than {LARGEST_ROW // 1_000_000} MB, which no "
                f"skillbook needs; export its skills as JSON where it comes from, and import them ({readable(error)})"
            ) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:  # an error message may quote bytes that are not UTF-8
            raise SkillbookStoreError(f"the store {self.path} {what}: {readable(error)}") from error
        except SkillbookFileError as error:
            raise error if error.path is not None else error.at(self.path) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at the path; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _close_in_its_process(connection: sqlite3.Connection, process: int) -> None:
    """Close a connection, unless it was inherited through a fork: that would disturb the parent process."""
    if os.getpid() == process:
        connection.close()
