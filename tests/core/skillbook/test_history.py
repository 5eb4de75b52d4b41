"""The history of a store: what was when, what changed it, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import SampleKey, Skillbook, SkillbookHistoryError
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking
from tests.core.skillbook.stored_books import add, opened
from tests.support.command_line import ace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


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


@pytest.mark.parametrize("version", [-1, 3, 1.0, "1", True, None])
def test_a_version_that_does_not_exist_is_refused(path: Path, version: Any) -> None:
    book = opened(path)
    for number in range(2):
        book.add_skill("a", f"Do {number}.")
    for ask in (book.as_of, book.rollback, lambda version: book.diff(0, version)):
        with pytest.raises(SkillbookHistoryError, match="the versions are 0 to 2"):
            ask(version)


def test_vectors_are_not_listed_as_versions(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db", clock=ticking()) as book:
        book.add_skill("a", "One.")
        book.set_embeddings({"a-00001": [0.5, 0.5]})
        with book.deferred_commits():
            book.add_skill("a", "Two.")
            book.set_embeddings({"a-00002": [0.5, 0.5]})
        book.commit(key=SampleKey("run", 1, "nothing learned"))
        assert [(entry.version, len(entry.events)) for entry in book.history()] == [(1, 1), (3, 1), (4, 0)]
        assert [entry.version for entry in book.blame("a-00001")] == [1]
        assert [entry.version for entry in book.blame("a-00002")] == [3]
        assert len(book.as_of(2)) == 1 and book.rollback(2) == 5
    done = ace("skillbook", "log", "--limit", "2", folder=tmp_path)
    assert done.code == 0, done.err
    assert "2 older versions" in done.out and "vector" not in done.out
    assert "vector" not in ace("skillbook", "blame", "a-00001", folder=tmp_path).out
