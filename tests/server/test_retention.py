"""Retention and deletion: what was deleted is no longer in any file of the service."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from ace import Skillbook
from ace_server import audit
from ace_server.database import Database, new_id, now
from ace_server.retention import PurgeReport, purge, request_deletion, run_deletions, scrub
from ace_server.seal import Seal, new_key
from ace_server.settings import ServerSettings
from ace_server.tables import audit as audit_table
from ace_server.tables import batch, book, deletion, feedback, login_token, request, review
from tests.requirement import missing
from tests.server.service_world import wait_until

DAY = 86_400.0
SETTINGS = ServerSettings()
LATER = SETTINGS.answer_seconds + 15
"""After so many seconds, no request that was in flight can still be written."""
MARKER = "marker-of-jane-4711"


@dataclass
class World:
    """A service with a book, whose rows a test adds."""

    database: Database
    folder: Path
    seal: Seal

    def open_book(self, name: str) -> Skillbook:
        return Skillbook.open(self.folder / f"{name}.db")

    def add(self, table: sa.Table, **values: object) -> None:
        with self.database.writing() as connection:
            connection.execute(sa.insert(table).values(**values))

    def ask(self, *, subject: str | None = None, age: float = 0.0, **values: object) -> str:
        """Add a request that is so many days old."""
        found = new_id("req")
        text = {name: self.seal.seal(f"{name} {MARKER}") for name in ("question", "context", "answer", "reasoning")}
        numbers = {"model_calls": 1, "prompt_tokens": 1, "completion_tokens": 1, "seconds": 0.1, **values}
        row = {"id": found, "at": now() - age * DAY, "book": "default", "key": "key_1", "skill_ids": ""}
        self.add(request, **row, **text, **numbers, subject=subject)
        return found

    def judge(self, about: str | None, *, age: float = 0.0, state: str = "new", **values: object) -> str:
        """Add feedback that is so many days old."""
        found = new_id("fbk")
        row = {"id": found, "at": now() - age * DAY, "book": "default", "kind": "feedback", "key": "key_1"}
        text = {name: self.seal.seal(f"{name} {MARKER}") for name in ("comment", "correction")}
        self.add(feedback, **row, **text, request=about, state=state, **values)
        return found

    def review(self, about: str, *, age: float = 0.0, state: str = "open", **values: object) -> str:
        found = new_id("rev")
        row = {"id": found, "at": now() - age * DAY, "book": "default", "kind": "feedback", "state": state}
        self.add(review, **row, request=about, content=self.seal.seal(MARKER), **values)
        return found

    def learn(self, *, state: str = "learned", age: float = 0.0) -> str:
        """Add a batch, in which a model has quoted the user, and return its id."""
        found = new_id("batch")
        at = now() - age * DAY
        self.add(batch, id=found, at=at, book="default", state=state, samples=1, ended_at=at)
        self.answer(found)
        return found

    def answer(self, run: str) -> None:
        with self.open_book("default") as opened:
            assert opened.store is not None
            opened.store.record_answer(json.dumps([run, "reflect", new_id("s")]), f"The user says {MARKER}", "2026")

    def answers(self) -> list[str]:
        with self.open_book("default") as opened:
            assert opened.store is not None
            return [json.loads(key)[0] for key, _ in opened.store.recorded_answers()]

    def ids(self, table: sa.Table) -> set[str]:
        with self.database.reading() as connection:
            return set(connection.scalars(sa.select(table.c.id)))

    def sealed(self) -> list[bytes]:
        """Return all sealed texts."""
        columns = [column for table in (request, feedback, review) for column in table.c if column.info.get("sealed")]
        with self.database.reading() as connection:
            found = [text for column in columns for text in connection.scalars(sa.select(column)) if text is not None]
        return [bytes(text) for text in found]

    def raw(self) -> bytes:
        """Return all bytes of the database: the files of SQLite with its log, or a dump of Postgres."""
        if self.database.is_sqlite:
            files = sorted(path for path in self.folder.iterdir() if path.is_file() and path.name != "seal.keys")
            return b"".join(path.read_bytes() for path in files)
        return dumped(str(self.database.location)) + (self.folder / "default.db").read_bytes()

    def purge(self, **options: Any) -> PurgeReport:
        return purge(self.database, ServerSettings(data=self.folder), self.open_book, **options)

    def delete(self, subject: str) -> None:
        with self.database.writing() as connection:
            request_deletion(connection, subject, by="key_admin", origin="127.0.0.1")

    def run_deletions(self, after: float = LATER) -> int:
        return run_deletions(self.database, SETTINGS, self.open_book, at=now() + after)


def dumped(location: str) -> bytes:
    parts = urlsplit(location)
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"), key=lambda path: float(path.parents[1].name))
    if not programs:
        missing("postgres", "pg_dump is not installed")
    schema = parse_qs(parts.query)["schema"][0]
    address = parts._replace(query="").geturl()
    done = subprocess.run([programs[-1], f"--schema={schema}", address], capture_output=True, check=True)
    assert b"CREATE TABLE" in done.stdout
    return done.stdout


def written(sealed: bytes, *, is_sqlite: bool) -> bytes:
    """Return sealed bytes as they are in the raw database."""
    return sealed if is_sqlite else sealed.hex().encode()


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    found = World(database, tmp_path, Seal([new_key()]))
    found.add(book, name="default", at=now())
    found.open_book("default").close()
    return found


def test_what_is_older_than_its_period_is_purged(world: World) -> None:
    old, young = world.ask(age=31), world.ask(age=29)
    old_feedback = world.judge(old, age=91, state="learned")
    held = world.judge(old, age=31, state="held")
    kept = [world.judge(young, age=89), world.judge(old, age=31, state="learned")]
    open_review, young_review = world.review(young, age=91), world.review(young, age=89)
    decided = world.review(young, age=91, state="accepted", decided_by="key_1")
    world.add(login_token, hash="a", at=0, expires_at=now() - 2 * DAY)
    world.add(login_token, hash="b", at=0, expires_at=now())

    expected = {
        "requests": 1,
        "feedback": 1,
        "waiting feedback without its request": 1,
        "open reviews": 1,
        "texts of reviews": 1,
        "login tokens": 1,
        "workers": 0,
    }
    assert world.purge(dry_run=True).rows == expected
    assert world.ids(request) == {old, young}
    report = world.purge(by="command")
    assert report.rows == {**expected, "audit rows": 0}
    assert report.is_scrubbed

    assert world.ids(request) == {young}
    assert world.ids(feedback) == {held, *kept} - {old_feedback}
    assert world.ids(review) == {young_review, decided} - {open_review}
    with world.database.reading() as connection:
        states = {row.id: row.state for row in connection.execute(sa.select(feedback))}
        assert states[held] == "purged"
        row = connection.execute(sa.select(review).where(review.c.id == decided)).one()
        assert (row.content, row.decided_by, row.state) == (None, "key_1", "accepted")
        said = connection.execute(sa.select(audit_table).where(audit_table.c.what == "purge")).one()
    assert said.who == "command"
    assert "requests:1" in said.object
    assert set(world.purge().rows.values()) == {0}


def test_an_age_can_be_given_and_does_not_concern_the_audit_log(world: World) -> None:
    kept, gone = world.ask(age=1), world.ask(age=3)
    world.judge(kept, age=3, state="learned")
    with world.database.writing() as connection:
        audit.record(connection, who="key_1", what="text.read", target=kept)
    report = world.purge(older_than=2)
    assert (report.rows["requests"], report.rows["feedback"], report.rows["audit rows"]) == (1, 1, 0)
    assert world.ids(request) == {kept} - {gone}
    assert world.purge(older_than=0).rows["requests"] == 1
    assert audit.check(world.database).problem is None


def test_more_rows_than_one_transaction_deletes_are_purged(world: World) -> None:
    world.ask(age=40)
    with world.database.writing() as connection:
        row = connection.execute(sa.select(request)).one()._asdict()
        connection.execute(sa.insert(request), [{**row, "id": f"req_{number}"} for number in range(2_500)])
    assert world.purge().rows["requests"] == 2_501


def test_answers_of_models_are_forgotten_when_their_batch_has_ended(world: World) -> None:
    learned, failed, old_failed = world.learn(), world.learn(state="failed"), world.learn(state="failed", age=91)
    running = world.learn(state="running")
    world.answer("run-of-a-person")  # in a skillbook that is not only used by the service
    assert world.purge().answers == 2
    assert sorted(world.answers()) == sorted([failed, running, "run-of-a-person"])
    assert learned.encode() + b'"' not in world.raw()
    assert old_failed not in world.answers()


def test_answers_of_a_validation_are_deleted_when_their_batch_has_ended(world: World) -> None:
    learned, failed, running = world.learn(), world.learn(state="failed"), world.learn(state="running")
    ended = world.folder / f"validation-{learned}.jsonl"
    kept = [world.folder / f"validation-{name}.jsonl" for name in (failed, running, "of-a-person")]
    for path in (ended, *kept):
        path.write_text("{}", encoding="utf-8")
    world.purge()
    assert sorted(world.folder.glob("validation-*")) == sorted(kept)


def test_everything_of_a_subject_is_deleted_and_nothing_of_others(world: World) -> None:
    is_sqlite = world.database.is_sqlite
    run = world.learn()
    jane = [world.ask(subject="sub_jane"), world.ask(subject="sub_jane", age=10)]
    bob = world.ask(subject="sub_bob")
    world.judge(jane[0], state="learned", batch=run)
    world.judge(jane[1], subject="sub_jane")
    world.judge(None, subject="sub_jane")  # a recorded trace
    of_bob = world.judge(bob)
    world.review(jane[0])
    review_of_bob = world.review(bob)
    texts = world.sealed()
    world_before = world.raw()
    assert MARKER.encode() in world_before  # in the recorded answer
    assert b"sub_jane" in world_before

    world.delete("sub_jane")
    assert world.run_deletions(after=0) == 1  # a request may still be in flight
    assert world.ids(request) == {bob}
    in_flight = {"seconds": SETTINGS.answer_seconds}
    late = world.ask(subject="sub_jane", age=-25 / DAY, **in_flight)  # it began before the deletion
    assert world.run_deletions() == 0
    assert world.ids(request) == {bob} - {late}
    assert world.ids(feedback) == {of_bob}
    assert world.ids(review) == {review_of_bob}
    assert world.answers() == []

    raw = world.raw()
    remaining = set(world.sealed())
    for text in texts:
        found = written(text, is_sqlite=is_sqlite)
        assert (found in raw) == (text in remaining)
        if text not in remaining:
            assert found[20:60] not in raw  # not even a part of it
    assert MARKER.encode() not in raw
    assert raw.count(b"sub_jane") == 1  # its pseudonym, in the audit log
    with world.database.reading() as connection:
        row = connection.execute(sa.select(deletion)).one()
        objects = connection.scalars(sa.select(audit_table.c.object)).all()
    assert (row.subject, row.failed, row.by) == (None, False, "key_admin")
    assert row.done_at is not None
    assert objects == ["sub_jane"]
    assert world.run_deletions() == 0


def test_a_deletion_stays_open_while_a_batch_learns_from_the_subject(world: World) -> None:
    run = world.learn(state="running")
    world.judge(world.ask(subject="jane"), state="batched", batch=run)
    world.delete("jane")
    assert world.run_deletions() == 1
    assert world.answers() == []
    world.answer(run)  # the batch continues
    assert world.run_deletions() == 1
    world.answer(run)
    with world.database.writing() as connection:
        connection.execute(sa.update(batch).values(state="learned"))
    assert world.run_deletions() == 0
    assert world.answers() == []
    assert MARKER.encode() not in world.raw()


def test_two_processes_that_delete_a_subject_note_the_batches_of_both(world: World) -> None:
    own, others = world.learn(state="running"), world.learn(state="running")
    world.judge(world.ask(subject="jane"), state="batched", batch=own)
    world.delete("jane")
    deleting = threading.Thread(target=world.run_deletions)

    def waits() -> bool:
        with world.database.reading() as connection:
            return bool(connection.scalar(sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")))

    with world.database.writing() as connection:  # the other process
        connection.execute(sa.update(deletion).values(batches=others))
        deleting.start()
        if not world.database.is_sqlite:  # SQLite lets a transaction that writes wait before it reads
            wait_until(waits)
    deleting.join()
    with world.database.reading() as connection:
        assert set(str(connection.scalar(sa.select(deletion.c.batches))).split()) == {own, others}


def test_what_a_subject_does_after_the_deletion_is_kept(world: World) -> None:
    before = world.ask(subject="jane", age=1e-3)
    world.delete("jane")
    after = world.ask(subject="jane", age=-1e-3)
    judged = world.judge(after, subject="jane", age=-1e-3)
    assert world.run_deletions() == 0
    assert world.ids(request) == {after} - {before}
    assert world.ids(feedback) == {judged}


def test_feedback_that_another_process_accepted_meanwhile_is_deleted_too(world: World) -> None:
    asked = world.ask(subject="jane", age=1e-3)
    world.delete("jane")
    assert world.run_deletions(after=0) == 1
    world.judge(asked, subject="jane", age=-1e-4)
    assert world.run_deletions() == 0
    assert world.ids(feedback) == set()


def test_a_waiting_deletion_does_not_rewrite_the_file_again(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    world = World(database, tmp_path, Seal([new_key()]))
    world.ask(subject="jane")
    world.delete("jane")
    assert world.run_deletions(after=0) == 1
    os.utime(tmp_path / "server.db", (0, 0))
    assert world.run_deletions(after=0) == 1
    assert (tmp_path / "server.db").stat().st_mtime == 0
    assert world.run_deletions() == 0
    assert (tmp_path / "server.db").stat().st_mtime > 0
    database.close()


def test_a_deletion_is_open_until_no_reader_keeps_the_files_from_being_rewritten(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    world = World(database, tmp_path, Seal([new_key()]))
    world.ask(subject="jane")
    world.delete("jane")
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(request)) == 1
        assert run_deletions(database, SETTINGS, world.open_book, at=now() + LATER, wait=0.2) == 1
        assert world.raw().count(b"jane") > 1
    assert world.run_deletions() == 0
    assert world.raw().count(b"jane") == 1  # in the audit log
    with database.reading() as connection:
        assert connection.scalar(sa.select(deletion.c.failed)) is False
    database.close()


def test_a_deletion_survives_a_skillbook_that_cannot_be_opened(world: World) -> None:
    world.judge(world.ask(subject="jane"), state="learned", batch=world.learn())
    path = world.folder / "default.db"
    path.rename(world.folder / "away.db")
    path.write_bytes(b"this is not a skillbook" * 100)
    world.delete("jane")
    assert world.run_deletions() == 1
    assert world.ids(request) == set()
    with world.database.reading() as connection:
        assert connection.scalar(sa.select(deletion.c.failed))
    (world.folder / "away.db").replace(path)
    assert world.run_deletions() == 0
    assert world.answers() == []


def test_texts_are_deleted_while_requests_come_in(world: World) -> None:
    for _ in range(20):
        world.ask(age=40)
    is_done = threading.Event()
    failures: list[BaseException] = []

    def serve(work: Callable[[], object]) -> None:
        try:
            while not is_done.is_set():
                work()
        except BaseException as error:  # it is shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(work,)) for work in (world.ask, world.sealed)]
    for thread in threads:
        thread.start()
    report = world.purge()
    is_done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert (report.rows["requests"], report.is_scrubbed) == (20, True)


def test_a_reader_that_holds_the_log_of_sqlite_is_reported(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(request)) == 0
        with database.writing() as other:
            other.execute(sa.insert(login_token).values(hash="a", at=0, expires_at=0))
        assert not scrub(database, wait=0.2)
    assert scrub(database)
    assert (tmp_path / "server.db-wal").stat().st_size == 0
    database.close()
