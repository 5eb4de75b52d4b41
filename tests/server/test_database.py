"""The tables: created, checked, and refused if a newer version made them."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from ace_server import releases, tables
from ace_server.database import Database, DatabaseUnavailableError, DatabaseVersionError, new_id, now


def test_a_second_migration_changes_nothing(database: Database) -> None:
    database.check()
    assert database.migrate() == 0


def test_a_database_of_version_1_gets_the_new_columns_and_loses_clear_idempotency_keys(database: Database) -> None:
    row = {"id": "fbk_1", "at": 0, "book": "b", "kind": "feedback", "key": "key_1", "state": "new"}
    with database.writing() as connection:
        connection.execute(sa.insert(tables.feedback).values(**row, idempotency_key="jane@acme.com"))
        place = "batch" if database.schema is None else f"{database.schema}.batch"
        for column in ("accepted", "refused", "steps"):
            connection.exec_driver_sql(f"ALTER TABLE {place} DROP COLUMN {column}")
        connection.execute(sa.update(tables.schema_version).values(version=1))
    with pytest.raises(DatabaseVersionError, match="ace server migrate"):
        database.check()
    assert database.migrate() == 2
    with database.writing() as connection:
        connection.execute(sa.insert(tables.batch).values(id="bat_1", at=0, book="b", state="queued", samples=1))
        batch = connection.execute(sa.select(tables.batch)).one()
        assert (batch.accepted, batch.refused, batch.steps) == (0, 0, None)
        [feedback] = connection.execute(sa.select(tables.feedback)).all()
        assert (feedback.id, feedback.idempotency_key) == ("fbk_1", None)


def test_a_database_without_tables_is_not_used(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    with pytest.raises(DatabaseVersionError, match="ace server migrate"):
        database.check()


def test_a_newer_database_is_left_alone(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(sa.update(tables.schema_version).values(version=99))
    with pytest.raises(DatabaseVersionError, match="has version 99"):
        database.migrate()
    with pytest.raises(DatabaseVersionError, match="has version 99"):
        database.check()
    with database.reading() as connection:
        assert connection.scalar(sa.select(tables.schema_version.c.version)) == 99


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    assert [stat.filemode(path.stat().st_mode) for path in tmp_path.glob("server.db*")] == ["-rw-------"] * 3
    database.close()


def test_a_database_that_cannot_be_reached_is_unavailable_without_its_password() -> None:
    database = Database("postgresql://ann:s3cret@127.0.0.1:1/ace")
    with pytest.raises(DatabaseUnavailableError) as error:
        database.check()
    assert "s3cret" not in str(error.value)


def test_writers_wait_for_each_other(database: Database) -> None:
    def add(count: int) -> None:
        for _ in range(count):
            with database.writing() as connection:
                latest = connection.scalar(sa.select(sa.func.count()).select_from(tables.login_token)) or 0
                connection.execute(sa.insert(tables.login_token).values(hash=new_id("t"), at=latest, expires_at=now()))

    threads = [threading.Thread(target=add, args=(20,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tables.login_token)) == 80


def test_a_book_has_one_published_release(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(sa.insert(tables.book).values(name="default", at=now()))
        first, second = (releases.add_release(connection, "default", version, by="worker") for version in (3, 4))
        assert releases.publish(connection, first, by="worker")
        assert releases.publish(connection, second, by="key_1")
        assert not releases.publish(connection, second, by="key_1")
        assert releases.publish(connection, first, by="key_1", reason="answers were better")
        assert releases.add_release(connection, "default", 4, by="worker") == second
        with pytest.raises(releases.UnknownReleaseError):
            releases.publish(connection, "rel_0", by="worker")
        found = connection.execute(sa.select(tables.release).order_by(tables.release.c.id)).all()
    assert [(row.state, row.published_by, row.reason) for row in found] == [
        ("published", "key_1", "answers were better"),
        ("retired", "key_1", None),
    ]
    with pytest.raises(IntegrityError), database.writing() as connection:
        connection.execute(sa.update(tables.release).values(state="published"))
