"""Files that are a store, were one, or are none."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from pathlib import Path

import pytest

from ace.skillbook import SampleKey, Skillbook, SkillbookError, SkillbookFileError, SkillbookStoreError
from ace.skillbook.events import CaseChange, CaseRun, CasesChanged, Tagged
from ace.skillbook.sqlite_file import MIGRATIONS, SqliteFile, bring_up_to_date
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


def opened(path: Path) -> Skillbook:
    return Skillbook.open(path, clock=ticking())


def add(content: str) -> UpdateOperation:
    return UpdateOperation("ADD", section="a", content=content)


@pytest.mark.parametrize(
    "data", [b"not a database, only some words " * 40, b'{"skills": {}}', b"SQLite format 3\0" + b"x" * 2000]
)
def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(SkillbookFileError, match=r"skills\.db"):
        opened(path)
    assert path.read_bytes() == data


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customer (name TEXT)")
    connection.close()
    data = path.read_bytes()
    with pytest.raises(SkillbookFileError, match="another program"):
        opened(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE skill SET data = '{cut'", r"skills\.db, skills\['a-00001'\]: not valid JSON"),
        ('UPDATE skill SET data = \'{"section": "a"}\'', r"skills\.db, skills\['a-00001'\]\.content"),
        ("DROP TABLE head", r"skills\.db: the store is damaged: no such table: head"),
    ],
)
def test_damage_inside_a_store_is_named_with_its_place(path: Path, damage: str, message: str) -> None:
    with opened(path) as book:
        book.add_skill("a", "One.")
    connection = sqlite3.connect(path)
    connection.execute(damage)
    connection.commit()
    connection.close()
    with pytest.raises(SkillbookError, match=message):
        opened(path)


def test_a_newer_store_is_refused(path: Path) -> None:
    opened(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(SkillbookFileError, match="upgrade ace"):
        opened(path)


def test_an_older_store_is_migrated_after_a_backup(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    bring_up_to_date(connection, path, MIGRATIONS[:1])
    data = json.dumps({"id": "a-00001", "section": "a", "content": "Old."})
    connection.execute("INSERT INTO skill VALUES ('a-00001', 0, ?, NULL)", (data,))
    connection.execute("UPDATE head SET version = 1, next_id = 2, id_floor = 2, next_position = 1")
    connection.close()
    book = opened(path)
    assert [skill.content for skill in book] == ["Old."]
    book.apply_update(UpdateBatch("", [add("New.")]), key=SampleKey("r", 1, "s"), progress="done")
    assert book.version == 2
    backup = sqlite3.connect(path.with_name("skills.db.version-1.backup"))
    assert backup.execute("PRAGMA user_version").fetchone() == (1,)
    assert backup.execute("SELECT data FROM skill").fetchall() == [(data,)]
    backup.close()


def test_commits_are_durable(path: Path) -> None:
    file = SqliteFile(path)
    assert file.query("PRAGMA journal_mode") == [("wal",)]
    assert file.query("PRAGMA synchronous") == [(2,)]


@pytest.mark.parametrize("fate", ["deleted", "replaced", "moved with its folder"])
def test_a_store_that_is_not_at_its_place_any_more_takes_nothing(tmp_path: Path, fate: str) -> None:
    folder = tmp_path / "d"
    book, other = opened(folder / "skills.db"), opened(folder / "other.db")
    book.add_skill("a", "Mine.")
    other.add_skill("b", "Theirs.")
    other.close()
    if fate == "deleted":
        (folder / "skills.db").unlink()
    elif fate == "replaced":
        (folder / "other.db").replace(folder / "skills.db")
    else:
        folder.rename(tmp_path / "e")
    for ask in (lambda: book.add_skill("a", "Lost."), book.refresh, book.history):
        with pytest.raises(SkillbookStoreError, match=r"d/skills\.db was deleted, or .* save the skillbook"):
            ask()
    assert [skill.content for skill in book] == ["Mine."]
    book.save_to_file(tmp_path / "saved.db")
    book.close()
    assert [skill.content for skill in opened(tmp_path / "saved.db")] == ["Mine."]
    if fate == "moved with its folder":
        assert [skill.content for skill in opened(tmp_path / "e" / "skills.db")] == ["Mine."]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM event WHERE version = 2", "version 2 of the history: it is missing"),
        ("DELETE FROM event WHERE version = 3", "version 3 of the history: it is missing"),
        ("UPDATE event SET operations = '[{' WHERE version = 2", "version 2 of the history: it cannot be read"),
        ("UPDATE event SET operations = '[5]' WHERE version = 2", "version 2 of the history: it cannot be read"),
        (
            "UPDATE event SET operations = replace(operations, 'a-00001', 'a-00009') WHERE version = 2",
            "version 2 of the history: it is inconsistent with the earlier versions: no such skill: 'a-00009'",
        ),
    ],
)
def test_a_damaged_history_is_named_and_the_skills_of_today_are_there(path: Path, damage: str, message: str) -> None:
    with opened(path) as book:
        book.add_skill("a", "One.")
        book.tag_skill("a-00001", "helpful")
        book.add_skill("a", "Two.")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    book = opened(path)
    for ask in (lambda: book.as_of(3), lambda: book.diff(1, 3), lambda: book.rollback(3)):
        with pytest.raises(SkillbookFileError, match=re.escape(message)):
            ask()
    assert [(skill.content, skill.helpful) for skill in book] == [("One.", 1), ("Two.", 0)]
    book.add_skill("a", "Three.")
    assert opened(path).dumps() == book.dumps()


TAG = {"kind": "tag", "skill_id": "a-00001", "counters": {"helpful": 1}, "at": "2026-01-01"}
PASSED = ["c1", "passed", "2026-01-01", "m", "4"]


def cases_event(**change: object) -> dict[str, object]:
    return {"kind": "cases", "skills": {"a-00001": change}, "at": "2026-01-01"}


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({**TAG, "skill_id": 5}, "skill_id: must be a string, got 5"),
        ({**TAG, "counters": {"helpful": True}}, "counters.helpful: must be a whole number, got True"),
        ({**TAG, "counters": {"great": 1}}, "counters.great: must be one of helpful, harmful, neutral, got 'great'"),
        ({**TAG, "counters": {"helpful": 2**53}}, "counters.helpful: must be from 0 to 9007199254740991"),
        ({"kind": "tag"}, "skill_id: this field is missing"),
        ({"kind": "remove", "skill_id": "a", "soft": 1, "at": ""}, "soft: must be true or false, got 1"),
        ({"kind": "merge", "keep_id": "a", "merged_ids": "b", "content": None, "at": ""}, "merged_ids: must be a list"),
        ({"kind": "embed", "skills": [["a-00001"]]}, "skills[0][1]: this field is missing"),
        ({"kind": "add", "skill": {"id": "b-1", "section": "b"}, "number": 1}, "skills['b-1'].content"),
        (cases_event(results=[[*PASSED[:1], "great", *PASSED[2:]]]), "skills['a-00001'].results[0][1]: must be one of"),
        (cases_event(colour="red"), "skills['a-00001'].colour: unknown field"),
        ({"kind": "sing"}, "unknown kind of event 'sing', written by a newer version of ace"),
    ],
)
def test_an_event_that_cannot_be_read_is_named_with_the_field(
    path: Path, event: dict[str, object], message: str
) -> None:
    with opened(path) as book:
        book.add_skill("a", "One.")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE event SET operations = ?", (json.dumps([event]),))
    with pytest.raises(SkillbookFileError) as caught:
        opened(path).history()
    assert f"version 1 of the history: it cannot be read: {message}" in str(caught.value)


def test_an_event_may_have_fields_of_a_later_version_and_results_of_an_earlier_one(path: Path) -> None:
    with opened(path) as book:
        book.add_skill("a", "One.")
    events = [{**TAG, "colour": "red"}, cases_event(results=[PASSED, PASSED[:4]])]
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE event SET operations = ?", (json.dumps(events),))
    [entry] = opened(path).history()
    runs = (CaseRun("c1", "passed", "2026-01-01", "m", "4"), CaseRun("c1", "passed", "2026-01-01", "m"))
    assert entry.events == (
        Tagged("a-00001", {"helpful": 1}, "2026-01-01"),
        CasesChanged({"a-00001": CaseChange(results=runs)}, "2026-01-01"),
    )


def test_reading_an_empty_file_leaves_it_empty(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    path.touch()
    with Skillbook.open(path) as reader, Skillbook.open(path) as writer:
        assert (len(reader), reader.version, reader.history(), path.stat().st_size) == (0, 0, [], 0)
        assert reader.store is not None and reader.store.recorded_answer("a") is None
        writer.add_skill("a", "One.")
        reader.refresh()
        assert (len(reader), reader.version) == (1, 1)
        reader.add_skill("a", "Two.")
    assert [skill.content for skill in Skillbook.open(path)] == ["One.", "Two."]


def test_reading_a_store_leaves_its_journal_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        book.add_skill("a", "One.")
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    before = path.read_bytes()
    with Skillbook.open(path) as book:
        assert (len(book), len(book.history()), book.as_of(1).skills()) == (1, 1, book.skills())
        assert [file.name for file in tmp_path.iterdir()] == ["skills.db"]
    assert path.read_bytes() == before
    with Skillbook.open(path) as book:
        book.add_skill("a", "Two.")
        assert (tmp_path / "skills.db-wal").exists()
    assert len(Skillbook.open(path)) == 2
