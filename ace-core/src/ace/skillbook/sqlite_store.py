"""The store that comes with ace: SQLite of the standard library, in WAL mode, for a local disk.

Every commit is on the disk when it returns (`synchronous = FULL`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

from ace.skillbook.sqlite_file import SqliteFile
from ace.skillbook.sqlite_vectors import delete_vectors, read_vectors, vectors_of, write_vectors
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


@final
class SqliteStore:
    """A skillbook in one SQLite file. Any number of processes and threads may share it.

    Args:
        path: The file; it is created if there is none.

    Raises:
        SkillbookFileError: If the file is no skillbook, or one of a newer ace. It is left as it is.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self._file = SqliteFile(self.path)

    def load(self) -> StoredBook:
        """Return the newest state, read in one go."""
        with self._file.reading() as connection:
            head = self._head(connection)
            skills = connection.execute(f"{_ROWS} ORDER BY position").fetchall()
            vectors = read_vectors(connection)
            decisions = connection.execute("SELECT first_id, second_id, data FROM decision ORDER BY 1, 2").fetchall()
        return StoredBook(
            head, [SkillRow(id, position, data, vectors.get(id)) for id, position, data in skills], decisions
        )

    def rows(self, ids: Iterable[str]) -> Sequence[SkillRow]:
        """Return those of the skills that the newest state has."""
        with self._file.reading() as connection:
            found = [connection.execute(f"{_ROWS} WHERE id = ?", (id,)).fetchone() for id in ids]
            rows = [row for row in found if row is not None]
            vectors = vectors_of(connection, [row[0] for row in rows])
        return [SkillRow(id, position, data, vectors.get(id)) for id, position, data in rows]

    def version(self) -> int:
        """Return the newest version; 0 if nothing has been committed."""
        version: int = self._file.query("SELECT version FROM head")[0][0]
        return version

    def append(self, commit: Commit) -> None:
        """Write the batch in one transaction; see the protocol."""
        with self._file.writing() as connection:
            if commit.key is not None and (version := self._committed(connection, commit.key)) is not None:
                raise AlreadyCommittedError(commit.key, version)
            if self._head(connection).version != commit.expected_version:
                raise VersionConflictError(f"version {commit.expected_version} is not the newest any more")
            self._write(connection, commit)

    def events(self, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        """Yield the batches with a version above `after` and up to `until`, in order."""
        query = (
            "SELECT version, at, author, operations, skipped, run, epoch, sample FROM event "
            "WHERE version > ? AND version <= ? ORDER BY version LIMIT 500"
        )
        newest = until if until is not None else 2**62
        while True:
            rows = self._file.query(query, (after, newest))
            for version, at, author, operations, skipped, run, epoch, sample in rows:
                key = None if run is None else SampleKey(run, epoch, sample)
                yield StoredEvent(version, at, author, operations, skipped, key)
            if not rows:
                return
            after = rows[-1][0]

    def committed_version(self, key: SampleKey) -> int | None:
        """Return the version of the batch with this key, or None."""
        rows = self._file.query(_COMMITTED, (key.run, key.epoch, key.sample))
        return rows[0][0] if rows else None

    def note_progress(self, key: SampleKey, note: str, at: str) -> None:
        """Keep a note about a sample; a later one replaces it."""
        with self._file.writing() as connection:
            self._note(connection, key, note, at)

    def progress(self, run: str) -> Sequence[ProgressRow]:
        """Return the notes of a run, in the order in which they were made first."""
        query = (
            "SELECT p.epoch, p.sample, p.at, p.note, e.version FROM progress p "
            "LEFT JOIN event e USING (run, epoch, sample) WHERE p.run = ? ORDER BY p.rowid"
        )
        rows = self._file.query(query, (run,))
        return [
            ProgressRow(SampleKey(run, epoch, sample), at, note, version) for epoch, sample, at, note, version in rows
        ]

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Keep what a model answered; the first answer under a key stays and is returned."""
        row = (key, answer, at, json.dumps(dict(details or {}), ensure_ascii=False, sort_keys=True))
        with self._file.writing() as connection:
            connection.execute("INSERT INTO answer VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
            first: str = connection.execute("SELECT answer FROM answer WHERE key = ?", (key,)).fetchone()[0]
            return first

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""
        rows = self._file.query("SELECT answer FROM answer WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    def recorded_answers(self) -> Iterator[tuple[str, str]]:
        """Yield all recorded answers with their keys, in the order of the keys."""
        yield from self._file.query("SELECT key, answer FROM answer ORDER BY key")

    def close(self) -> None:
        """Release the file. A later call opens it again."""
        self._file.close()

    def _head(self, connection: sqlite3.Connection) -> Head:
        row = connection.execute("SELECT version, next_id, id_floor, next_position FROM head").fetchone()
        return Head(*row)

    def _committed(self, connection: sqlite3.Connection, key: SampleKey) -> int | None:
        row = connection.execute(_COMMITTED, (key.run, key.epoch, key.sample)).fetchone()
        return None if row is None else row[0]

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
