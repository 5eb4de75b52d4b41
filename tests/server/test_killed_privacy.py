"""Keys are replaced, and subjects deleted, by a process that is killed at any line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ace import Skillbook
from ace_server import audit, tables
from ace_server.database import Database, now
from ace_server.retention import request_deletion
from ace_server.rotation import open_seal, rotate
from ace_server.seal import KEYS_FILE, Seal
from ace_server.subjects import Subjects
from tests.server.killed_work import KilledWork, Work, do_work, killed_work

KILLS = 24
JANE, BOB = "jane.marker@acme.com", "bob@acme.com"
ROWS = 6


@pytest.fixture(scope="module")
def worker() -> Iterator[KilledWork]:
    with killed_work() as found:
        yield found


def prepared(folder: Path) -> Path:
    """A data folder with texts of two subjects, batches that have learned from them, and a requested deletion."""
    folder.mkdir()
    database = Database(folder / "server.db")
    database.migrate()
    seal = open_seal(database, folder, environ={})
    subjects = Subjects(database, seal)
    pseudonyms = {name: subjects.pseudonym(name) for name in (JANE, BOB)}
    with database.writing() as connection:
        for number in range(ROWS):
            for name in (JANE, BOB):
                row = {"at": now(), "book": "default", "key": "key_1", "subject": pseudonyms[name]}
                text = seal.seal(f"{name} {number}")
                ids = {kind: f"{kind}_{name[:3]}{number}" for kind in ("req", "fbk", "rev")}
                connection.execute(
                    sa.insert(tables.request).values(
                        **row, id=ids["req"], question=text, answer=text, skill_ids="", model_calls=1, prompt_tokens=1,
                        completion_tokens=1, seconds=0.1,
                    )
                )  # fmt: skip
                connection.execute(
                    sa.insert(tables.feedback).values(
                        **row, id=ids["fbk"], kind="feedback", request=ids["req"], state="learned", comment=text,
                        batch=f"bat_{name[:3]}",
                    )
                )  # fmt: skip
                connection.execute(
                    sa.insert(tables.review).values(
                        id=ids["rev"], at=now(), book="default", kind="feedback", state="edited", request=ids["req"],
                        feedback=ids["fbk"], subject=row["subject"], content=text,
                    )
                )  # fmt: skip
        for name in (JANE, BOB):
            batch = {"id": f"bat_{name[:3]}", "at": now(), "book": "default", "state": "learned", "samples": ROWS}
            connection.execute(sa.insert(tables.batch).values(**batch))
        request_deletion(connection, pseudonyms[JANE], by="key_1")
    database.close()
    with Skillbook.open(folder / "default.db") as book:
        assert book.store is not None
        for name in (JANE, BOB):
            book.store.record_answer(json.dumps([f"bat_{name[:3]}", 1]), name, "2026-01-01T00:00:00+00:00")
    return folder


def kills(worker: KilledWork, work: Work, start: Path, folder: Path) -> Iterator[Path]:
    """Kill the work at points that are spread evenly over its lines, and yield the data folder after each."""
    whole = worker.do(work, Path(shutil.copytree(start, folder / "whole")))
    assert whole > KILLS
    for place in range(KILLS):
        copy = Path(shutil.copytree(start, folder / f"kill-{place}"))
        assert worker.do(work, copy, kill_at=1 + place * (whole - 1) // (KILLS - 1)) == 0
        yield copy
        shutil.rmtree(copy)


def sealed(database: Database) -> list[bytes]:
    """All sealed values of a database."""
    with database.reading() as connection:
        return [
            bytes(value)
            for table in tables.METADATA.sorted_tables
            for column in table.c
            if column.info.get("sealed")
            for value in connection.scalars(sa.select(column).where(column.is_not(None)))
        ]


def key_of(value: bytes) -> str:
    return value.partition(b":")[0].decode()


def texts(database: Database, seal: Seal) -> list[str]:
    return sorted(seal.open(value) for value in sealed(database))


def test_a_killed_rotation_loses_no_text_and_is_completed_by_the_next(worker: KilledWork, tmp_path: Path) -> None:
    start = prepared(tmp_path / "start")
    database = Database(start / "server.db")
    expected = texts(database, open_seal(database, start, environ={}))
    database.close()
    old = (start / KEYS_FILE).read_text(encoding="ascii").split()[0]
    numbers_of_keys = set()
    for folder in kills(worker, "rotate", start, tmp_path):
        database = Database(folder / "server.db")
        seal = open_seal(database, folder, environ={})
        numbers_of_keys.add(len(seal.key_ids))
        assert old in (folder / KEYS_FILE).read_text(encoding="ascii").split()
        assert {key_of(value) for value in sealed(database)} <= set(seal.key_ids)
        assert texts(database, seal) == expected
        done = rotate(database, seal)
        assert (done.unreadable, done.is_scrubbed) == (0, True)
        assert {key_of(value) for value in sealed(database)} == {done.key} == {seal.first_key_id}
        last = rotate(database, seal)
        assert seal.key_ids == (last.key, done.key)  # those of the rotation that was killed are gone
        assert texts(database, open_seal(database, folder, environ={})) == expected
        assert audit.check(database).problem is None
        database.close()
    assert numbers_of_keys == {1, 2}  # it was killed before and after the new key was written


def test_a_killed_deletion_is_completed_by_the_next(worker: KilledWork, tmp_path: Path) -> None:
    start = prepared(tmp_path / "start")
    left_by_kills = set()
    for folder in kills(worker, "delete", start, tmp_path):
        database = Database(folder / "server.db")
        seal = open_seal(database, folder, environ={})
        with database.reading() as connection:
            left_by_kills.add(connection.scalar(sa.select(sa.func.count()).select_from(tables.request)))
        do_work("delete", folder)
        with database.reading() as connection:
            for table in (tables.request, tables.feedback, tables.review):
                assert connection.scalar(sa.select(sa.func.count()).select_from(table)) == ROWS, table.name
            [deletion] = connection.execute(sa.select(tables.deletion)).all()
        assert (deletion.subject, deletion.done_at is not None, deletion.failed) == (None, True, False)
        assert [text for text in texts(database, seal) if JANE in text] == []
        assert len([text for text in texts(database, seal) if BOB in text]) == 4 * ROWS
        assert audit.check(database).problem is None
        database.close()
        raw = b"".join(path.read_bytes() for path in folder.rglob("*.db*"))
        assert JANE.encode() not in raw
        assert BOB.encode() in raw  # the recorded answer of the other batch
    assert left_by_kills == {ROWS, 2 * ROWS}  # it was killed before and after the rows were deleted
