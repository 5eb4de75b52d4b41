"""The built-in store: SQLite from the standard library, in WAL mode, for local disks.

Every commit is on disk when it returns (`synchronous = FULL`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from operator import itemgetter
from pathlib import Path
from types import NoneType
from typing import final

from ace._internal.decoding import LARGEST_COUNT
from ace._internal.named_locks import named_lock
from ace.skillbook.sqlite_file import (
    COLUMNS,
    SqliteFile,
    check_values,
    damaged,
    delete_vectors,
    read_vectors,
    vectors_of,
    write_vectors,
)
from ace.skillbook.store import (
    AlreadyCommittedError,
    Commit,
    Head,
    ProgressRow,
    SampleKey,
    SkillRow,
    StoredBook,
    StoredEvent,
    VersionConflictError,
)

_COMMITTED = "SELECT version FROM event WHERE run = ? AND epoch = ? AND sample = ?"
_ROWS = "SELECT id, position, data FROM skill"
_OPTIONAL_NUMBER = (int, NoneType)
_EVENT_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "version": int,
    "at": str,
    "author": str,
    "operations": str,
    "skipped": str,
    "run": (str, NoneType),
    "epoch": _OPTIONAL_NUMBER,
    "sample": (str, NoneType),
}


def _delete_answers(connection: sqlite3.Connection, runs: Iterable[str]) -> int:
    deleted = 0
    for run in runs:
        first = json.dumps([run], ensure_ascii=False)[:-1] + ","
        after = first[:-1] + chr(ord(",") + 1)
        deleted += connection.execute("DELETE FROM answer WHERE key >= ? AND key < ?", (first, after)).rowcount
    return deleted


@final
class SqliteStore:
    """A skillbook in one SQLite file. Any number of processes and threads may share it.

    Args:
        path: The file, which is created if it does not exist.

    Raises:
        SkillbookFileError: If the file is not a skillbook, or was written by a newer version of ACE. It is not changed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self._file = SqliteFile(self.path)

    def load(self) -> StoredBook:
        """Return the newest state, read in a single transaction."""
        with self._file.reading() as connection:
            head = self._head(connection)
            skills = connection.execute(_ROWS).fetchall()
            vectors = read_vectors(connection)
            decisions = connection.execute("SELECT first_id, second_id, data FROM decision ORDER BY 1, 2").fetchall()
        check_values("skill", skills, id=str, position=int, data=str)
        # The rows are almost sorted already; SQLite would copy all their texts to sort them.
        skills.sort(key=itemgetter(1))
        check_values("decision", decisions, first_id=str, second_id=str, data=str)
        return StoredBook(
            head, [SkillRow(id, position, data, vectors.get(id)) for id, position, data in skills], decisions
        )

    def rows(self, ids: Iterable[str]) -> Sequence[SkillRow]:
        """Return the rows of the skills that exist in the newest state."""
        with self._file.reading() as connection:
            found = [connection.execute(f"{_ROWS} WHERE id = ?", (id,)).fetchone() for id in ids]
            rows = [row for row in found if row is not None]
            check_values("skill", rows, id=str, position=int, data=str)
            vectors = vectors_of(connection, [row[0] for row in rows])
        return [SkillRow(id, position, data, vectors.get(id)) for id, position, data in rows]

    def version(self) -> int:
        """Return the newest version; 0 if nothing has been committed."""
        with self._file.reading() as connection:
            return self._head(connection).version

    def append(self, commit: Commit) -> None:
        """Write the batch in one transaction; see the protocol."""
        with self._file.writing() as connection:
            if commit.key is not None and (version := self._committed(connection, commit.key)) is not None:
                raise AlreadyCommittedError(commit.key, version)
            if self._head(connection).version != commit.expected_version:
                raise VersionConflictError(f"a version after {commit.expected_version} has been committed meanwhile")
            self._write(connection, commit)

    def events(self, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        """Yield the batches with versions after `after` and up to `until`, in order."""
        query = (
            "SELECT version, at, author, operations, skipped, run, epoch, sample FROM event "
            "WHERE version > ? AND version <= ? ORDER BY version LIMIT 500"
        )
        newest = until if until is not None else 2**62
        while True:
            rows = self._file.query(query, (after, newest))
            check_values("event", rows, **_EVENT_TYPES)
            for version, at, author, operations, skipped, run, epoch, sample in rows:
                if (run is None) != (epoch is None) or (run is None) != (sample is None):
                    raise damaged("the sample key is incomplete", f"event {version}")
                key = None if run is None else SampleKey(run, epoch, sample)
                yield StoredEvent(version, at, author, operations, skipped, key)
            if not rows:
                return
            after = rows[-1][0]

    def committed_version(self, key: SampleKey) -> int | None:
        """Return the version of the batch with this key, or None."""
        with self._file.reading() as connection:
            return self._committed(connection, key)

    def note_progress(self, key: SampleKey, note: str, at: str) -> None:
        """Record progress on a sample; a later call replaces it."""
        with self._file.writing() as connection:
            self._note(connection, key, note, at)

    def progress(self, run: str) -> Sequence[ProgressRow]:
        """Return the progress of a run, in the order in which samples were first recorded."""
        query = (
            "SELECT p.epoch, p.sample, p.at, p.note, e.version FROM progress p "
            "LEFT JOIN event e USING (run, epoch, sample) WHERE p.run = ? ORDER BY p.rowid"
        )
        rows = self._file.query(query, (run,))
        check_values("progress", rows, epoch=int, sample=str, at=str, note=str, version=_OPTIONAL_NUMBER)
        return [
            ProgressRow(SampleKey(run, epoch, sample), at, note, version) for epoch, sample, at, note, version in rows
        ]

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Record an answer of a model; the first answer under a key is kept and returned."""
        row = (key, answer, at, json.dumps(dict(details or {}), ensure_ascii=False, sort_keys=True))
        with self._file.writing() as connection:
            connection.execute("INSERT INTO answer VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
            rows = connection.execute("SELECT answer FROM answer WHERE key = ?", (key,)).fetchall()
            check_values("answer", rows, answer=str)
            first: str = rows[0][0]
            return first

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""
        rows = self._file.query("SELECT answer FROM answer WHERE key = ?", (key,))
        check_values("answer", rows, answer=str)
        return rows[0][0] if rows else None

    def recorded_answers(self) -> Iterator[tuple[str, str]]:
        """Yield all recorded answers with their keys, in the order of the keys."""
        rows = self._file.query("SELECT key, answer FROM answer ORDER BY key")
        check_values("answer", rows, key=str, answer=str)
        yield from rows

    def forget_answers(self, *runs: str) -> int:
        """Delete the recorded answers of runs, also in backups of older formats; see `ForgetsAnswers`.

        The file is rewritten even if no answer is left, because an earlier call may have been killed before that.
        """
        with self._file.writing() as connection:
            deleted = _delete_answers(connection, runs)
        self._file.rewrite()
        for backup in self._file.backups():
            with (
                self._file.naming_errors("has a backup in which the answers could not be deleted"),
                closing(sqlite3.connect(backup, isolation_level=None)) as connection,
            ):
                _delete_answers(connection, runs)
                connection.execute("VACUUM")
        return deleted

    def run_lock(self, run: str) -> AbstractContextManager[bool]:
        """Return a lock on a run that only one process can hold at a time; see `LocksRuns`."""
        # Hidden, so that it is not read as a trace in a folder of traces, and short even if the name of the store is
        # long.
        digest = hashlib.sha256(self.path.name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return named_lock(self.path.with_name(f".ace-run-{digest}.lock"), run)

    def close(self) -> None:
        """Close the file. A later call opens it again."""
        self._file.close()

    def _head(self, connection: sqlite3.Connection) -> Head:
        rows = connection.execute(f"SELECT {COLUMNS['head']} FROM head").fetchall()
        if len(rows) != 1:
            raise damaged(f"it has {len(rows)} rows instead of one", "head")
        check_values("head", rows, **dict.fromkeys(Head._fields, int))
        for name, number in zip(Head._fields, rows[0], strict=True):
            if not 0 <= number <= LARGEST_COUNT:
                raise damaged(f"{number} is not a number from 0 to {LARGEST_COUNT}", f"head.{name}")
        return Head(*rows[0])

    def _committed(self, connection: sqlite3.Connection, key: SampleKey) -> int | None:
        rows = connection.execute(_COMMITTED, (key.run, key.epoch, key.sample)).fetchall()
        check_values("event", rows, version=int)
        return rows[0][0] if rows else None

    def _write(self, connection: sqlite3.Connection, commit: Commit) -> None:
        head, key = commit.head, commit.key
        if commit.replaces_all:
            connection.execute("DELETE FROM skill")
            delete_vectors(connection)
            connection.execute("DELETE FROM decision")
        connection.executemany("DELETE FROM skill WHERE id = ?", [(id,) for id in commit.removed])
        connection.executemany(
            "INSERT INTO skill VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
            "position = excluded.position, data = excluded.data",
            [(row.id, row.position, row.data) for row in commit.changed],
        )
        vectors = dict.fromkeys(commit.removed) | {row.id: row.embedding for row in commit.changed}
        write_vectors(connection, vectors | dict(commit.vectors))
        for first, second, data in commit.decisions:
            connection.execute("DELETE FROM decision WHERE first_id = ? AND second_id = ?", (first, second))
            if data is not None:
                connection.execute("INSERT INTO decision VALUES (?, ?, ?)", (first, second, data))
        sample = (None, None, None) if key is None else (key.run, key.epoch, key.sample)
        connection.execute(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (head.version, commit.at, commit.author, *sample, commit.operations, commit.skipped),
        )
        connection.execute(
            "UPDATE head SET version = ?, next_id = ?, id_floor = ?, next_position = ?",
            (head.version, head.next_id, head.id_floor, head.next_position),
        )
        if key is not None and commit.progress is not None:
            self._note(connection, key, commit.progress, commit.at)

    def _note(self, connection: sqlite3.Connection, key: SampleKey, note: str, at: str) -> None:
        connection.execute(
            "INSERT INTO progress VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, epoch, sample) DO UPDATE SET "
            "at = excluded.at, note = excluded.note",
            (key.run, key.epoch, key.sample, at, note),
        )
