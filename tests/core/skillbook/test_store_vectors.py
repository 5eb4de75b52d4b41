"""The vectors of a store."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from ace.skillbook.sqlite_file import MIGRATIONS, bring_up_to_date
from ace.skillbook.vectors import unpack_vector
from tests.core.skillbook.clocks import ticking


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


def opened(path: Path) -> Skillbook:
    return Skillbook.open(path, clock=ticking())


def test_vectors_of_an_older_store_are_kept_and_follow_their_skills(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    bring_up_to_date(connection, path, MIGRATIONS[:2])
    for place, vector in enumerate([b"\0\0\x80\x3f", None, b"\0\0\0\x40"]):
        id = f"a-0000{place + 1}"
        data = json.dumps({"id": id, "section": "a", "content": f"Text {place}."})
        connection.execute("INSERT INTO skill VALUES (?, ?, ?, ?)", (id, place, data, vector))
    connection.execute("UPDATE head SET next_id = 4, id_floor = 4, next_position = 3")
    connection.close()

    def vectors() -> list[bytes | None]:
        with opened(path) as again:
            return [skill.embedding for skill in again.skills()]

    with opened(path) as book:
        assert [skill.id for skill in book.skills()] == ["a-00001", "a-00002", "a-00003"]
        book.set_embeddings({"a-00002": [0.5]})
        book.tag_skill("a-00001", "helpful")
        assert vectors() == [b"\0\0\x80\x3f", b"\0\0\0\x3f", b"\0\0\0\x40"]
        book.set_embeddings({"a-00002": [1.0]})
        book.update_skill("a-00001", content="Another text.")
        book.remove_skill("a-00003")
        assert vectors() == [None, b"\0\0\x80\x3f"]
    rows = sqlite3.connect(path)
    assert rows.execute("SELECT id FROM vector_place").fetchall() == [("a-00002",)]
    rows.close()


def test_vectors_follow_their_skills_through_every_change(path: Path) -> None:
    chance = random.Random(7)
    expected: dict[str, list[float]] = {}
    with opened(path) as book:
        for number in range(100):
            book.add_skill("ab"[number % 2], f"Do {number}.")
        for step in range(60):
            ids = [skill.id for skill in book.skills()]
            some = chance.sample(ids, 7)
            numbers = {id: [float(step)] * chance.choice([2, 3]) for id in some[:5]}
            book.set_embeddings(numbers)
            expected |= numbers
            book.tag_skill(some[4], "helpful")
            book.update_skill(some[3], section="c")
            book.update_skill(some[2], content=f"Changed at {step}.")
            expected.pop(some[2])
            book.remove_skill(some[5])
            expected.pop(some[5], None)
            added = book.add_skill("a", f"New at {step}.").id
            with book.deferred_commits():
                book.set_embeddings({added: [0.5]})
                book.tag_skill(added, "helpful")
            expected[added] = [0.5]
            if step % 10 == 0:
                with opened(path) as again:
                    assert again.skills() == book.skills()
        found = {skill.id: unpack_vector(skill.embedding) for skill in book if skill.embedding is not None}
        assert found == expected
        other = opened(path)
        assert other.skills() == book.skills()
        book.rollback(40)
        other.refresh()
        assert opened(path).skills() == book.skills() == other.skills()
        assert any(skill.embedding is not None for skill in book)
        book.rollback(0)
    connection = sqlite3.connect(path)
    assert [connection.execute(f"SELECT count(*) FROM vector_{name}").fetchone() for name in ("block", "place")] == [
        (0,),
        (0,),
    ]
    connection.close()


def test_setting_vectors_does_not_write_the_skills_again(path: Path) -> None:
    with opened(path) as book:
        book.add_skill("a", "One.")
        connection = sqlite3.connect(path)
        connection.execute(
            "CREATE TRIGGER watch BEFORE UPDATE ON skill BEGIN SELECT RAISE(ABORT, 'the skill was written'); END"
        )
        connection.close()
        book.set_embeddings({"a-00001": [1.0]})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER watch")
    assert [skill.embedding for skill in opened(path)] == [b"\0\0\x80\x3f"]


def test_vectors_take_little_more_than_their_bytes(path: Path) -> None:
    size = 2000
    with opened(path) as book:
        book.import_skills(Skillbook.from_text("# a\n" + "\n".join(f"- Do {number}." for number in range(size))))
        checkpointed(path)
        before = path.stat().st_size
        book.set_embeddings({skill.id: bytes(4 * 384) for skill in book})
        checkpointed(path)
        assert 1 <= (path.stat().st_size - before) / (size * 4 * 384) < 1.08


def checkpointed(path: Path) -> None:
    """Bring everything from the log into the file."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    connection.close()
