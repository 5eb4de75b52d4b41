"""Keys of a database: a missing one is told at the start, and all rows get a new one while the service works."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from ace_server.audit import check
from ace_server.database import Database, new_id, now
from ace_server.intake import GivenFeedback, store_feedback, store_trace
from ace_server.rotation import open_seal, rotate
from ace_server.seal import KEYS_FILE, Seal, SealError, key_id, new_key
from ace_server.tables import audit, feedback, review, seal_key


def add(database: Database, seal: Seal, text: str) -> str:
    [found] = add_all(database, seal, [text])
    return found


def add_all(database: Database, seal: Seal, added: Sequence[str]) -> list[str]:
    """Add rows in one transaction, and return their ids."""
    about = {"at": now(), "book": "default", "kind": "feedback", "key": "key_1", "state": "new"}
    with database.writing() as connection:
        # Sealed inside the transaction, as by the service: a rotation cannot come in between.
        rows = [
            {"id": new_id("fbk"), **about, "comment": seal.seal(text), "correction": seal.seal(f"{text}!")}
            for text in added
        ]
        connection.execute(sa.insert(feedback), rows)
    return [str(row["id"]) for row in rows]


def texts(database: Database, seal: Seal) -> Mapping[str, tuple[str, str]]:
    with database.reading() as connection:
        rows = connection.execute(sa.select(feedback)).all()
    return {row.id: (seal.open(row.comment), seal.open(row.correction)) for row in rows}


def key_ids(database: Database) -> set[str]:
    with database.reading() as connection:
        columns = [
            connection.scalars(sa.select(column)).all() for column in (feedback.c.comment, feedback.c.correction)
        ]
    return {bytes(text).partition(b":")[0].decode() for column in columns for text in column if text is not None}


def listed(database: Database) -> set[str]:
    with database.reading() as connection:
        return set(connection.scalars(sa.select(seal_key.c.id)))


def test_the_first_start_creates_a_key_and_later_ones_use_it(database: Database, tmp_path: Path) -> None:
    first = open_seal(database, tmp_path, environ={})
    added = add(database, first, "text")
    again = open_seal(database, tmp_path, environ={})
    assert texts(database, again) == {added: ("text", "text!")}
    assert listed(database) == {first.first_key_id}


def test_a_missing_key_is_told_while_rows_are_sealed_with_it(database: Database, tmp_path: Path) -> None:
    file = tmp_path / KEYS_FILE
    open_seal(database, tmp_path, environ={})
    file.unlink()
    seal = open_seal(database, tmp_path, environ={})  # nothing is sealed yet, so a new key does not matter
    assert listed(database) == {seal.first_key_id}
    add(database, seal, "text")
    key = seal.first_key_id
    kept = file.read_text(encoding="ascii")
    file.unlink()
    problem = f"are sealed with the key {key}, which is missing; add the key to ACE_SERVER_KEYS or"
    with pytest.raises(SealError, match=re.escape(problem)):
        open_seal(database, tmp_path, environ={})
    assert not file.exists()  # no new key hides it
    other = new_key()
    with pytest.raises(SealError, match=f"which is not among the keys .{key_id(other)}.;"):
        open_seal(database, None, environ={"ACE_SERVER_KEYS": other})
    found = open_seal(database, None, environ={"ACE_SERVER_KEYS": f"{other} {kept}"})
    assert found.key_ids == (key_id(other), key)
    assert listed(database) == {key_id(other), key}


def test_without_a_folder_a_key_must_be_given(database: Database) -> None:
    with pytest.raises(SealError, match="set ACE_SERVER_KEYS"):
        open_seal(database, None, environ={})


def test_all_rows_get_the_new_key_and_replaced_keys_leave_the_file(database: Database, tmp_path: Path) -> None:
    seal = open_seal(database, tmp_path, environ={})
    old = seal.first_key_id
    added = dict(zip(add_all(database, seal, [f"text {number}" for number in range(450)]), range(450), strict=True))
    with database.writing() as connection:
        connection.execute(
            sa.insert(review).values(id="rev_1", at=0, book="b", kind="release", state="open", note=seal.seal("note"))
        )
    before = set(key_ids(database))
    done = rotate(database, seal)
    assert before == {old}
    assert (done.rows, done.unreadable, done.is_scrubbed) == (451, 0, True)
    assert key_ids(database) == {done.key}
    assert listed(database) == {done.key, old}
    assert texts(database, seal) == {found: (f"text {number}", f"text {number}!") for found, number in added.items()}
    assert seal.key_ids == (done.key, old)
    if database.is_sqlite:
        assert f"{old}:gAAAA".encode() not in (tmp_path / "server.db").read_bytes()
    second = rotate(database, seal)
    assert seal.key_ids == (second.key, done.key)
    assert listed(database) == {second.key, done.key}
    assert second.rows == 451
    with database.reading() as connection:
        assert connection.scalars(sa.select(audit.c.object)).all() == [done.key, second.key]
    assert check(database).problem is None


def test_keys_of_the_environment_are_only_used(database: Database) -> None:
    old, new = new_key(), new_key()
    seal = open_seal(database, None, environ={"ACE_SERVER_KEYS": old})
    add(database, seal, "text")
    both = open_seal(database, None, environ={"ACE_SERVER_KEYS": f"{new},{old}"})
    done = rotate(database, both)
    assert (done.key, done.rows) == (key_id(new), 1)
    assert list(texts(database, open_seal(database, None, environ={"ACE_SERVER_KEYS": new})).values()) == [
        ("text", "text!")
    ]
    assert listed(database) == {key_id(new)}


def test_a_row_that_cannot_be_opened_is_counted_and_does_not_stop_the_others(
    database: Database, tmp_path: Path
) -> None:
    seal = open_seal(database, tmp_path, environ={})
    broken, fine = add(database, seal, "one"), add(database, seal, "two")
    with database.writing() as connection:
        damaged = f"{seal.first_key_id}:damaged".encode()
        connection.execute(sa.update(feedback).where(feedback.c.id == broken).values(comment=damaged))
    done = rotate(database, seal)
    assert (done.rows, done.unreadable) == (2, 1)
    with database.reading() as connection:
        rows = {row.id: row for row in connection.execute(sa.select(feedback))}
    assert bytes(rows[broken].comment) == damaged
    assert seal.open(rows[broken].correction) == "one!"
    assert seal.open(rows[fine].comment) == "two"


def test_what_waits_to_be_stored_during_two_rotations_can_be_read(database: Database, tmp_path: Path) -> None:
    seal = open_seal(database, tmp_path, environ={})
    given = GivenFeedback(request="req_1", book="default", subject=None, key="key_1", comment="It is wrong.")
    waiting = [
        store_feedback(seal, given),
        store_trace(seal, "default", '{"question": "2+2?"}', key="key_1", subject=None, idempotency_key=None),
    ]
    rotate(database, seal)
    rotate(database, seal)  # removes the first key
    with database.writing() as connection:
        for change in waiting:
            change(connection)
        rows = connection.execute(sa.select(feedback).order_by(feedback.c.kind)).all()
    assert [seal.open(row.comment or row.trace) for row in rows] == ["It is wrong.", '{"question": "2+2?"}']


def test_nothing_is_lost_while_the_service_writes_reads_and_deletes(database: Database, tmp_path: Path) -> None:
    command = open_seal(database, tmp_path, environ={})
    services = [open_seal(database, tmp_path, environ={}) for _ in range(2)]
    add_all(database, command, [f"before {number}" for number in range(300)])
    expected: dict[str, tuple[str, str]] = dict(texts(database, command))
    is_done = threading.Event()
    failures: list[BaseException] = []

    def serve(seal: Seal, name: str) -> None:
        try:
            number = 0
            while not is_done.is_set():
                text = f"{name} {number}"
                added = add(database, seal, text)
                expected[added] = (text, f"{text}!")
                with database.writing() as connection:
                    change = sa.update(feedback).where(feedback.c.id == added)
                    connection.execute(change.values(comment=seal.seal(f"changed {number}")))
                expected[added] = (f"changed {number}", f"{text}!")
                assert texts(database, seal).keys() >= {added}
                number += 1
        except BaseException as error:  # it is shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(seal, f"s{n}")) for n, seal in enumerate(services)]
    for thread in threads:
        thread.start()
    rotations = [rotate(database, command) for _ in range(3)]
    is_done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert texts(database, command) == expected
    assert all(rotation.rows >= 300 for rotation in rotations)
    assert rotate(database, command).key == command.first_key_id
    assert key_ids(database) == {command.first_key_id}
