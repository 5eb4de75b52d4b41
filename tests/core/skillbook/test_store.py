"""A skillbook in a store: every change is a version, and nothing is lost between two books on one file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from ace.skill import InsightSource
from ace.skillbook import (
    AlreadyCommittedError,
    SampleKey,
    Skillbook,
    SkillbookStore,
    SkillbookStoreError,
)
from ace.skillbook.sqlite_store import SqliteStore
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking
from tests.core.skillbook.stored_books import add, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


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
    assert [(left.index, left.reason) for left in report.skipped] == [(0, "no such skill: 'a-00001'")]
    assert [(done.index, done.skill_id) for done in report.applied] == [(1, "a-00002")]
    assert report.version == second.version == 3
    assert second.history()[-1].skipped[0]["reason"] == "no such skill: 'a-00001'"
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
    "change",
    [
        lambda book: book.add_skill("a", "Late."),
        lambda book: book.tag_skill("a-00001", "helpful"),
        lambda book: book.apply_update(UpdateBatch("", [add("Late.")]), key=SampleKey("r", 1, "s")),
        lambda book: book.apply_update(UpdateBatch("", []), key=SampleKey("r", 1, "s")),
        lambda book: book.rollback(0),
        lambda book: book.history(),
        lambda book: book.refresh(),
        lambda book: book.store,
    ],
    ids=["add", "tag", "sample", "sample that taught nothing", "roll back", "history", "refresh", "store"],
)
def test_a_closed_book_can_be_read_but_not_changed(path: Path, change: Callable[[Skillbook], object]) -> None:
    with opened(path) as book:
        book.add_skill("a", "Kept.")
    with pytest.raises(SkillbookStoreError, match=r"is closed.*Skillbook\.open"):
        change(book)
    assert book.as_prompt() == "## a\n- [a-00001] Kept."
    book.close()
    assert opened(path).dumps() == book.dumps()


def test_closing_commits_what_was_deferred_and_takes_nothing_more(path: Path) -> None:
    book = opened(path)
    with book.deferred_commits():
        book.add_skill("a", "Committed by close.")
        book.close()
        with pytest.raises(SkillbookStoreError, match="is closed"):
            book.add_skill("a", "Late.")
    assert [skill.content for skill in book] == [skill.content for skill in opened(path)] == ["Committed by close."]
