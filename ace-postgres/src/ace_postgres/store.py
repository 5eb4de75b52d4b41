"""The store of skillbooks in PostgreSQL.

Every commit is on disk when it returns. A commit is optimistic: it succeeds if the book still has the version that it
is based on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, final

from ace.skillbook import (
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
from ace_postgres.database import Connection, Database, PostgresLocation
from ace_postgres.locks import AdvisoryLocks

__all__ = ["PostgresStore"]

_NEW_BOOK: Final = Head(0, 1, 1, 0)
_BOOK: Final = "(SELECT book FROM book WHERE name = %s)"
_MARK: Final = "\x1a"
"""Begins the two characters that replace NUL, which PostgreSQL cannot store, and this character itself."""


def _stored(text: str) -> str:
    if _MARK not in text and "\0" not in text:
        return text
    return text.replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")


def _original(text: str) -> str:
    return text if _MARK not in text else text.replace(f"{_MARK}0", "\0").replace(f"{_MARK}1", _MARK)


def _hash(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(parts).encode("ascii")).digest()


@final
class PostgresStore:
    """A skillbook in a PostgreSQL database. Any number of processes and threads may share it.

    Args:
        location: `postgresql://USER@HOST/DATABASE?book=NAME`. `&schema=NAME` chooses the schema of the tables, by
            default `ace`; other parameters are passed to libpq. The password comes from `PGPASSWORD`, from `.pgpass`
            or from the location. The book is created by its first change.

    Raises:
        SkillbookStoreError: If the location is invalid, the database cannot be reached, or its tables cannot be
            created. No error contains the password.
        SkillbookFileError: If a newer version of ACE created the tables. They are not changed.
    """

    def __init__(self, location: str) -> None:
        self.location = PostgresLocation.parse(location)
        self._name = _stored(self.location.book)
        self._database = Database(self.location)
        self._locks = AdvisoryLocks(self._database)

    def load(self) -> StoredBook:
        """Return the newest state, read in a single transaction."""

        def read(connection: Connection) -> StoredBook:
            with _transaction(connection, "REPEATABLE READ READ ONLY"):
                head = self._head(connection)
                skills = connection.execute(
                    f"SELECT id, position, data, embedding FROM skill WHERE book = {_BOOK} ORDER BY position",
                    (self._name,),
                    binary=True,
                ).fetchall()
                decisions = connection.execute(
                    f"SELECT first_id, second_id, data FROM decision WHERE book = {_BOOK} "
                    'ORDER BY first_id COLLATE "C", second_id COLLATE "C"',
                    (self._name,),
                ).fetchall()
            pairs = [(_original(first), _original(second), _original(data)) for first, second, data in decisions]
            return StoredBook(head, [_skill_row(row) for row in skills], pairs)

        return self._database.run("cannot be read", read)

    def rows(self, ids: Iterable[str]) -> Sequence[SkillRow]:
        """Return the rows of the skills that exist in the newest state."""
        query = f"SELECT id, position, data, embedding FROM skill WHERE book = {_BOOK} AND id = ANY(%s)"
        wanted = [_stored(id) for id in ids]
        found = {row[0]: row for row in self._query(query, self._name, wanted)}
        return [_skill_row(found[id]) for id in wanted if id in found]

    def version(self) -> int:
        """Return the newest version; 0 if nothing has been committed."""
        return self._database.run("cannot be read", self._head).version

    def append(self, commit: Commit) -> None:
        """Write the batch in one transaction; see the protocol.

        If the connection is lost after the commit was sent, the store looks whether it arrived.
        """
        token = uuid.uuid4()

        def write(connection: Connection) -> None:
            with _transaction(connection, "READ COMMITTED"):
                self._write(connection, commit, token)

        self._database.run("could not write the change, which was rolled back", write)

    def events(self, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        """Yield the batches with versions after `after` and up to `until`, in order."""
        query = (
            "SELECT version, at, author, operations, skipped, run, epoch, sample FROM event "
            f"WHERE book = {_BOOK} AND version > %s AND version <= %s ORDER BY version LIMIT 500"
        )
        newest = until if until is not None else 2**62
        while rows := self._query(query, self._name, after, newest):
            for version, at, author, operations, skipped, run, epoch, sample in rows:
                key = None if run is None else SampleKey(_original(run), epoch, _original(sample))
                yield StoredEvent(
                    version, _original(at), _original(author), _original(operations), _original(skipped), key
                )
            after = rows[-1][0]

    def committed_version(self, key: SampleKey) -> int | None:
        """Return the version of the batch with this key, or None."""
        query = f"SELECT version FROM event WHERE book = {_BOOK} AND key_hash = %s"
        rows = self._query(query, self._name, _hash(*key))
        return rows[0][0] if rows else None

    def note_progress(self, key: SampleKey, note: str, at: str) -> None:
        """Record progress on a sample; a later call replaces it."""

        def write(connection: Connection) -> None:
            with _transaction(connection, "READ COMMITTED"):
                self._note(connection, self._created(connection), key, note, at)

        self._database.run("could not write the progress", write)

    def progress(self, run: str) -> Sequence[ProgressRow]:
        """Return the progress of a run, in the order in which samples were first recorded."""
        query = (
            "SELECT p.epoch, p.sample, p.at, p.note, e.version FROM progress p "
            "LEFT JOIN event e ON e.book = p.book AND e.key_hash = p.key_hash "
            f"WHERE p.book = {_BOOK} AND p.run = %s ORDER BY p.number"
        )
        return [
            ProgressRow(SampleKey(run, epoch, _original(sample)), _original(at), _original(note), version)
            for epoch, sample, at, note, version in self._query(query, self._name, _stored(run))
        ]

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Record an answer of a model; the first answer under a key is kept and returned."""
        text = json.dumps(dict(details or {}), sort_keys=True)

        def write(connection: Connection) -> str:
            with _transaction(connection, "READ COMMITTED"):
                book = self._created(connection)
                connection.execute(
                    "INSERT INTO answer (book, key, key_hash, answer, at, details) VALUES (%s, %s, %s, %s, %s, %s) "
                    "ON CONFLICT DO NOTHING",
                    (book, _stored(key), _hash(key), _stored(answer), _stored(at), text),
                )
                found = connection.execute(
                    "SELECT answer FROM answer WHERE book = %s AND key_hash = %s", (book, _hash(key))
                )
                return _original(found.fetchall()[0][0])

        return self._database.run("could not record the answer of the model", write)

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""
        rows = self._query(f"SELECT answer FROM answer WHERE book = {_BOOK} AND key_hash = %s", self._name, _hash(key))
        return _original(rows[0][0]) if rows else None

    def recorded_answers(self) -> Iterator[tuple[str, str]]:
        """Yield all recorded answers with their keys, in the order of the keys."""
        query = f'SELECT key, answer FROM answer WHERE book = {_BOOK} ORDER BY key COLLATE "C"'
        for key, answer in self._query(query, self._name):
            yield _original(key), _original(answer)

    def forget_answers(self, *runs: str) -> int:
        """Delete the recorded answers of runs.

        PostgreSQL overwrites their place on disk when it vacuums the table, and its log and backups as they expire.
        """
        prefixes = [_stored(json.dumps([run], ensure_ascii=False)[:-1] + ",") for run in runs]

        def delete(connection: Connection) -> int:
            query = (
                f"DELETE FROM answer WHERE book = {_BOOK} "
                "AND EXISTS (SELECT FROM unnest(%s::text[]) AS prefix WHERE starts_with(key, prefix))"
            )
            return connection.execute(query, (self._name, prefixes)).rowcount

        return self._database.run("could not delete the answers", delete)

    @contextlib.contextmanager
    def run_lock(self, run: str) -> Iterator[bool]:
        """Return a lock on a run that only one process can hold at a time, on any host.

        It is an advisory lock, which the server releases when the process or its host ends.

        Args:
            run: The name of the run.
        """
        is_locked = self._locks.take(run)
        try:
            yield is_locked
        finally:
            if is_locked:
                self._locks.release(run)

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._database.close()

    def _query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._database.run("cannot be read", lambda connection: connection.execute(query, values).fetchall())

    def _head(self, connection: Connection) -> Head:
        query = "SELECT version, next_id, id_floor, next_position FROM book WHERE name = %s"
        row = connection.execute(query, (self._name,)).fetchone()
        return Head(*row) if row is not None else _NEW_BOOK

    def _created(self, connection: Connection) -> int:
        """Return the number of the book, which is created if it does not exist."""
        query = "SELECT book FROM book WHERE name = %s"
        row = connection.execute(query, (self._name,)).fetchone()
        if row is None:
            connection.execute(
                "INSERT INTO book (name, version, next_id, id_floor, next_position) VALUES (%s, %s, %s, %s, %s) "
                "ON CONFLICT DO NOTHING",
                (self._name, *_NEW_BOOK),
            )
            row = connection.execute(query, (self._name,)).fetchall()[0]
        number: int = row[0]
        return number

    def _write(self, connection: Connection, commit: Commit, token: uuid.UUID) -> None:
        """Write the batch, unless an earlier attempt whose connection was lost has committed it."""
        head, key = commit.head, commit.key
        book = self._created(connection)
        # Locks the book, so an earlier attempt that the server is still committing ends before this returns.
        is_newest = connection.execute(
            "UPDATE book SET version = %s, next_id = %s, id_floor = %s, next_position = %s "
            "WHERE book = %s AND version = %s",
            (*head, book, commit.expected_version),
        ).rowcount
        query = "SELECT FROM event WHERE book = %s AND version = %s AND token = %s"
        if not is_newest and connection.execute(query, (book, head.version, token)).fetchone() is not None:
            return
        if key is not None:
            query = "SELECT version FROM event WHERE book = %s AND key_hash = %s"
            row = connection.execute(query, (book, _hash(*key))).fetchone()
            if row is not None:
                raise AlreadyCommittedError(key, row[0])
        if not is_newest:
            raise VersionConflictError(f"a version after {commit.expected_version} has been committed meanwhile")
        self._write_skills(connection, book, commit)
        sample = (None,) * 4 if key is None else (_stored(key.run), key.epoch, _stored(key.sample), _hash(*key))
        texts = [_stored(text) for text in (commit.at, commit.author, commit.operations, commit.skipped)]
        connection.execute(
            "INSERT INTO event (book, version, token, run, epoch, sample, key_hash, at, author, operations, skipped) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (book, head.version, token, *sample, *texts),
        )
        if key is not None and commit.progress is not None:
            self._note(connection, book, key, commit.progress, commit.at)

    def _write_skills(self, connection: Connection, book: int, commit: Commit) -> None:
        if commit.replaces_all:
            connection.execute("DELETE FROM skill WHERE book = %s", (book,))
            connection.execute("DELETE FROM decision WHERE book = %s", (book,))
        if commit.removed:
            removed = [_stored(id) for id in commit.removed]
            connection.execute("DELETE FROM skill WHERE book = %s AND id = ANY(%s)", (book, removed))
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO skill (book, id, position, data, embedding) VALUES (%s, %s, %s, %s, %s) "
                "ON CONFLICT (book, id) DO UPDATE SET "
                "position = excluded.position, data = excluded.data, embedding = excluded.embedding",
                [(book, _stored(row.id), row.position, _stored(row.data), row.embedding) for row in commit.changed],
            )
            cursor.executemany(
                "UPDATE skill SET embedding = %s WHERE book = %s AND id = %s",
                [(vector, book, _stored(id)) for id, vector in commit.vectors],
            )
            cursor.executemany(
                "DELETE FROM decision WHERE book = %s AND first_id = %s AND second_id = %s",
                [(book, _stored(first), _stored(second)) for first, second, _ in commit.decisions],
            )
            cursor.executemany(
                "INSERT INTO decision (book, first_id, second_id, data) VALUES (%s, %s, %s, %s)",
                [
                    (book, _stored(first), _stored(second), _stored(data))
                    for first, second, data in commit.decisions
                    if data is not None
                ],
            )

    def _note(self, connection: Connection, book: int, key: SampleKey, note: str, at: str) -> None:
        connection.execute(
            "INSERT INTO progress (book, run, epoch, sample, key_hash, at, note) VALUES (%s, %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (book, key_hash) DO UPDATE SET at = excluded.at, note = excluded.note",
            (book, _stored(key.run), key.epoch, _stored(key.sample), _hash(*key), _stored(at), _stored(note)),
        )


def _skill_row(row: tuple[Any, ...]) -> SkillRow:
    id, position, data, embedding = row
    return SkillRow(_original(id), position, _original(data), embedding)


@contextlib.contextmanager
def _transaction(connection: Connection, mode: str) -> Iterator[None]:
    """A transaction of a connection in autocommit mode. After an error, the pool rolls it back."""
    connection.execute(f"BEGIN ISOLATION LEVEL {mode}")
    yield
    connection.execute("COMMIT")
