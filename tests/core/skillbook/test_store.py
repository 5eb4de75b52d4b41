"""A skillbook in a store: every change is a version, and nothing is lost between two books on one file."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest

from ace.skill import InsightSource
from ace.skillbook import (
    AlreadyCommittedError,
    SampleKey,
    Skillbook,
    SkillbookError,
    SkillbookFileError,
    SkillbookHistoryError,
    SkillbookStore,
)
from ace.skillbook.sqlite_schema import MIGRATIONS, bring_up_to_date
from ace.skillbook.sqlite_store import SqliteStore
from ace.skillbook.vectors import unpack_vector
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


def opened(path: Path) -> Skillbook:
    return Skillbook.open(path, clock=ticking())


def add(content: str) -> UpdateOperation:
    return UpdateOperation("ADD", section="a", content=content, insight_source=InsightSource("t1", "Which?"))


def test_every_change_is_there_after_reopening(path: Path) -> None:
    book = opened(path)
    book.add_skill("a", "One 🌍.", evidence="seen")
    book.add_skill("b", "Two.")
    book.add_skill("a", "Three.")
    book.tag_skill("a-00001", "helpful", 2)
    book.update_skill("b-00002", section="a", content="Changed.")
    book.remove_skill("a-00001")
    book.merge_skills("a-00003", ["b-00002"])
    book.keep_apart("a-00003", "b-00002", reasoning="why")
    book.set_embeddings({"a-00003": [1.0, 2.0]})
    text, skills = book.dumps(), book.skills(include_invalid=True)
    book.close()
    again = opened(path)
    assert again.dumps() == text
    assert again.skills(include_invalid=True) == skills
    assert again.version == 9 and again.add_skill("a", "Four.").id == "a-00004"
    assert isinstance(again.store, SkillbookStore)


def test_two_books_on_one_file_lose_nothing(path: Path) -> None:
    first, second = opened(path), opened(path)
    one = first.add_skill("a", "From first.")
    two = second.add_skill("a", "From second.")
    assert (one.id, two.id) == ("a-00001", "a-00002")
    second.tag_skill("a-00001", "helpful")
    first.tag_skill("a-00001", "helpful")
    first.refresh()
    second.refresh()
    assert first.dumps() == second.dumps() == opened(path).dumps()
    assert [skill.helpful for skill in first] == [2, 0]


def test_operations_on_a_skill_that_has_gone_are_reported(path: Path) -> None:
    first, second = opened(path), opened(path)
    first.add_skill("a", "One.")
    second.refresh()
    first.remove_skill("a-00001")
    report = second.apply_update(
        UpdateBatch("", [UpdateOperation("TAG", skill_id="a-00001", metadata={"helpful": 1}), add("Two.")])
    )
    assert [(left.index, left.reason) for left in report.skipped] == [(0, "there is no skill 'a-00001'")]
    assert [(done.index, done.skill_id) for done in report.applied] == [(1, "a-00002")]
    assert report.version == second.version == 3
    assert second.history()[-1].skipped[0]["reason"] == "there is no skill 'a-00001'"
    first.add_skill("a", "Three.")
    assert second.tag_skill("a-00002", "helpful").helpful == 1


def test_an_add_whose_id_was_taken_gets_another_and_its_tags_follow(path: Path) -> None:
    first, second = opened(path), opened(path)
    with second.deferred_commits():
        mine = second.add_skill("a", "Mine.")
        second.tag_skill(mine.id, "helpful", 3)
        first.add_skill("a", "Theirs.")
    assert [(skill.id, skill.content, skill.helpful) for skill in second] == [
        ("a-00001", "Theirs.", 0),
        ("a-00002", "Mine.", 3),
    ]
    assert opened(path).dumps() == second.dumps()


def test_adds_in_different_sections_share_one_counter(path: Path) -> None:
    first, second = opened(path), opened(path)
    one = first.add_skill("maths", "From first.")
    two = second.add_skill("style", "From second.")
    assert (one.id, two.id) == ("maths-00001", "style-00002")
    with second.deferred_commits():
        for number in range(2):
            second.tag_skill(second.add_skill("style", f"Later {number}.").id, "helpful", number + 1)
        first.add_skill("maths", "Between.")
    assert [(skill.id, skill.content, skill.helpful) for skill in second] == [
        ("maths-00001", "From first.", 0),
        ("style-00002", "From second.", 0),
        ("maths-00003", "Between.", 0),
        ("style-00004", "Later 0.", 1),
        ("style-00005", "Later 1.", 2),
    ]
    assert opened(path).dumps() == second.dumps() == second.as_of(second.version or 0).dumps()


def test_a_history_with_a_number_twice_keeps_the_ids_that_it_gave(path: Path) -> None:
    book = opened(path)
    book.add_skill("maths", "One.")
    book.add_skill("style", "Two.")
    text = book.dumps()
    book.close()
    connection = sqlite3.connect(path)
    for table, column in (("skill", "data"), ("skill", "id"), ("event", "operations")):
        connection.execute(f"UPDATE {table} SET {column} = replace({column}, 'style-00002', 'style-00001')")
    connection.execute("""UPDATE event SET operations = replace(operations, '"number":2', '"number":1')""")
    connection.execute("UPDATE head SET next_id = 2, id_floor = 2")
    connection.commit()
    connection.close()
    expected = text.replace("style-00002", "style-00001").replace('"next_id": 3', '"next_id": 2')
    with opened(path) as again:
        assert again.dumps() == expected == again.as_of(2).dumps()


def test_a_chosen_id_that_was_taken_is_an_error_and_changes_nothing(path: Path) -> None:
    first, second = opened(path), opened(path)
    first.add_skill("a", "Theirs.", "mine-1")
    with pytest.raises(ValueError, match="already"):
        second.add_skill("a", "Mine.", "mine-1")
    assert second.dumps() == first.dumps() == opened(path).dumps()


def test_an_order_disturbed_by_undoing_comes_back(path: Path) -> None:
    first, second = opened(path), opened(path)
    for number in range(4):
        first.add_skill("ab"[number % 2], f"Do {number}.")
    second.refresh()
    second.as_prompt()
    with second.deferred_commits():
        second.remove_skill("a-00001")
        second.update_skill("b-00002", section="a")
        first.add_skill("a", "Later.")
    first.refresh()
    assert first.dumps() == second.dumps() == opened(path).dumps()
    assert first.as_prompt() == second.as_prompt() == opened(path).as_prompt()


def test_a_sample_is_one_transaction_and_counts_once(path: Path) -> None:
    key = SampleKey("run1", 1, "q7")
    book = opened(path)
    book.add_skill("a", "One.")
    with book.deferred_commits():
        book.tag_skill("a-00001", "helpful")
        report = book.apply_update(UpdateBatch("", [add("Two.")]), author="me", key=key, progress="done")
    assert report.version == 2 and len(book.history()) == 2
    entry = book.history(after=1)[0]
    assert (entry.key, entry.author, [type(event).__name__ for event in entry.events]) == (
        key,
        "me",
        ["Tagged", "Added"],
    )
    store = book.store
    assert store is not None and store.committed_version(key) == 2
    assert [(row.key, row.note, row.version) for row in store.progress("run1")] == [(key, "done", 2)]
    before = book.dumps()
    with pytest.raises(AlreadyCommittedError, match="'q7' of epoch 1 in run 'run1' is version 2"):
        book.apply_update(UpdateBatch("", [add("Again.")]), key=key)
    assert book.dumps() == before == opened(path).dumps()
    assert book.apply_update(UpdateBatch(), key=SampleKey("run1", 2, "q7")).version == 3


def test_changes_that_are_taken_back_leave_the_order_as_it_was(path: Path) -> None:
    key = SampleKey("run1", 1, "q7")
    book = opened(path)
    for number in range(3):
        book.add_skill("ab"[number % 2], f"Do {number}.")
    book.commit(key=key)
    before, prompt = book.dumps(), book.as_prompt()
    with pytest.raises(AlreadyCommittedError), book.deferred_commits():  # noqa: PT012  (the last line raises)
        book.remove_skill("a-00001")
        book.keep_apart("b-00002", "a-00003")
        book.update_skill("b-00002", section="a")
        book.add_skill("c", "New.")
        assert book.as_prompt() != prompt
        book.commit(key=key)
    assert book.dumps() == before and book.as_prompt() == prompt
    assert book.add_skill("c", "New.").id == "c-00004"
    assert opened(path).as_prompt() == book.as_prompt()


def test_progress_and_answers_are_kept(path: Path) -> None:
    store = SqliteStore(path)
    store.note_progress(SampleKey("r", 1, "b"), "started", "t0")
    store.note_progress(SampleKey("r", 1, "a"), "started", "t1")
    store.note_progress(SampleKey("r", 1, "b"), "failed", "t2")
    assert store.recorded_answer("k") is None
    assert store.record_answer("k", "first 🌍", "t0", {"model": "m"}) == "first 🌍"
    assert store.record_answer("k", "second", "t1") == "first 🌍"
    store.close()
    store.close()
    again = SqliteStore(path)
    assert [(row.key.sample, row.note, row.at) for row in again.progress("r")] == [
        ("b", "failed", "t2"),
        ("a", "started", "t1"),
    ]
    assert list(again.recorded_answers()) == [("k", "first 🌍")]
    assert again.progress("other") == [] and again.version() == 0


def grown(path: Path) -> tuple[Skillbook, dict[int, str]]:
    """Return a book of 50 versions and its text at each."""
    book = opened(path)
    texts = {0: book.dumps()}
    for number in range(50):
        operations = [add(f"Do {number}.")]
        if number > 3:
            id = book.skills()[number % len(book)].id
            operations.append(UpdateOperation("TAG", skill_id=id, metadata={"helpful": 1}))
            operations.append(UpdateOperation("UPDATE", skill_id=id, content=f"Changed by {number}."))
        if number % 7 == 6:
            operations.append(UpdateOperation("REMOVE", skill_id=book.skills()[number % len(book)].id))
        version = book.apply_update(UpdateBatch("", operations), key=SampleKey("r", 1, str(number))).version
        assert version == number + 1
        texts[version] = book.dumps()
    return book, texts


def test_history_agrees_with_what_happened(path: Path) -> None:
    book, texts = grown(path)
    assert [entry.version for entry in book.history()] == list(range(1, 51))
    assert {version: book.as_of(version).dumps() for version in texts} == texts
    for first, second in ((0, 50), (10, 11), (40, 20), (7, 7)):
        before, after = (json.loads(texts[version])["skills"] for version in (first, second))
        diff = book.diff(first, second)
        assert {skill.id for skill in diff.added} == after.keys() - before.keys()
        assert {skill.id for skill in diff.removed} == before.keys() - after.keys()
        common = before.keys() & after.keys()
        assert {skill.id for _, skill in diff.changed} == {id for id in common if before[id] != after[id]}
        assert all(old.content == before[old.id]["content"] for old, _ in diff.changed)
        assert bool(diff) == (before != after)


def test_blame_names_every_version_that_changed_a_skill(path: Path) -> None:
    book, texts = grown(path)
    book.rollback(20)
    texts[51] = book.dumps()
    for id in ("a-00001", "a-00030", "a-00007"):
        seen = [json.loads(texts[version])["skills"].get(id) for version in range(52)]
        expected = {version for version in range(1, 52) if seen[version] != seen[version - 1]}
        assert {entry.version for entry in book.blame(id)} == expected
    assert book.blame("nobody") == []


def test_rollback_is_a_version_that_can_be_taken_back(path: Path) -> None:
    book, texts = grown(path)
    other = opened(path)
    assert book.rollback(13, author="me") == 51
    assert book.dumps() == texts[13] == book.as_of(51).dumps() == opened(path).dumps()
    other.refresh()
    assert other.dumps() == texts[13] and other.version == 51
    added = book.add_skill("a", "After.")
    assert added.id == "a-00051", "an id of a version that was left is not given out again"
    assert book.rollback(50) == 53
    assert book.dumps() == texts[50]
    book.rollback(51)
    assert book.dumps() == texts[13]
    book.rollback(0)
    assert len(book) == 0 and book.as_prompt() == ""
    assert {version: book.as_of(version).dumps() for version in (13, 50, 53, 54)} == {
        13: texts[13],
        50: texts[50],
        53: texts[50],
        54: texts[13],
    }
    assert opened(path).dumps() == book.dumps()


@pytest.mark.parametrize("version", [-1, 3])
def test_a_version_that_does_not_exist_is_refused(path: Path, version: int) -> None:
    book = opened(path)
    for number in range(2):
        book.add_skill("a", f"Do {number}.")
    for ask in (book.as_of, book.rollback, lambda version: book.diff(0, version)):
        with pytest.raises(SkillbookHistoryError, match="goes from 0 to 2"):
            ask(version)


def test_a_book_can_be_saved_as_a_store_and_as_json(path: Path, tmp_path: Path) -> None:
    book = Skillbook(clock=ticking())
    for number in range(3):
        book.add_skill("a", f"Do {number}.", insight_source=InsightSource(f"t{number}"))
    book.remove_skill("a-00002", soft=True)
    book.save_to_file(path)
    stored = Skillbook.load_from_file(path)
    assert stored.dumps() == book.dumps()
    with pytest.raises(FileExistsError, match="import_skills"):
        book.save_to_file(path)
    stored.add_skill("a", "More.")
    stored.save_to_file(path)
    stored.save_to_file(tmp_path / "export.json")
    assert (tmp_path / "export.json").read_text(encoding="utf-8") == stored.dumps() == opened(path).dumps()


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
        ("UPDATE skill SET data = '{cut'", r"skills\.db, skills\['a-00001'\]: no valid JSON"),
        ('UPDATE skill SET data = \'{"section": "a"}\'', r"skills\.db, skills\['a-00001'\]\.content"),
        ("DROP TABLE head", r"skills\.db cannot be read: no such table"),
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
    with pytest.raises(SkillbookFileError, match="update ace"):
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


def test_commits_are_durable(path: Path) -> None:
    store = SqliteStore(path)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert store._open().execute("PRAGMA synchronous").fetchone() == (2,)
