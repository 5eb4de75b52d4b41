"""The parts of a prompt: they repeat from call to call, and only the book and its version decide what they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ace.context import SelectedSkills, SkillbookView
from ace.skillbook import Skillbook
from ace.skillbook.selection import estimate_tokens
from ace.skillbook.sqlite_store import SqliteStore
from ace.skillbook.store import SkillbookStore, StoredEvent

BUDGET = 20_000


def book_of(count: int) -> Skillbook:
    book = Skillbook()
    for number in range(count):
        book.add_skill(f"section {number % 7}", f"Rule {number} holds in case {number}.")
    return book


def test_skills_are_in_the_order_of_addition_and_without_counters() -> None:
    book = book_of(8)
    book.tag_skill("section-00002", "helpful", 5)
    lines = book.prompt_parts("", BUDGET).frozen.splitlines()
    assert lines == [f"- [section-{number + 1:05}] Rule {number} holds in case {number}." for number in range(8)]


def test_tags_change_nothing_and_other_changes_come_after_what_repeats() -> None:
    book = book_of(8)
    before = book.prompt_parts("", BUDGET)
    for number in range(1, 9):
        book.tag_skill(f"section-{number:05}", "harmful")
    assert book.prompt_parts("", BUDGET) == before
    book.update_skill("section-00003", content="A new rule.")
    book.add_skill("section 1", "An added rule.")
    after = book.prompt_parts("", BUDGET)
    assert after.frozen == before.frozen
    assert after.changes.splitlines()[1:] == ["- [section-00003] A new rule.", "- [section-00009] An added rule."]


def test_a_removed_skill_is_not_sent_any_more() -> None:
    book = book_of(8)
    book.prompt_parts("", BUDGET)
    book.remove_skill("section-00003", soft=True)
    book.remove_skill("section-00005")
    parts = book.prompt_parts("", BUDGET)
    assert "Rule 2 " not in str(parts) and "Rule 4 " not in str(parts)
    assert (len(parts.frozen.splitlines()), parts.changes) == (6, "")


def test_changes_are_folded_into_a_new_copy_in_time() -> None:
    book = book_of(3)
    book.prompt_parts("", BUDGET)
    for number in range(40):
        book.add_skill("more", f"Further rule {number}.")
        parts = book.prompt_parts("", BUDGET)
        assert len(parts.changes.splitlines()) <= 13
        assert len(parts.frozen.splitlines()) + max(0, len(parts.changes.splitlines()) - 1) == len(book)


def test_an_import_of_many_skills_is_no_list_of_changes() -> None:
    book = book_of(3)
    book.prompt_parts("", BUDGET)
    book.import_skills(book_of(200))
    parts = book.prompt_parts("", BUDGET)
    assert parts.changes == "" and len(parts.frozen.splitlines()) == len(book)


def test_a_pinned_skill_comes_first() -> None:
    book = book_of(8)
    book.update_skill("section-00005", pinned=True)
    assert book.prompt_parts("", BUDGET).frozen.startswith("- [section-00005]")
    book.update_skill("section-00007", pinned=True)
    assert "[section-00007]" in book.prompt_parts("", BUDGET).changes.splitlines()[1]


def test_of_a_book_that_is_too_large_most_of_what_is_shown_is_the_same_for_every_question() -> None:
    book = book_of(3000)
    book.tag_skill("section-02500", "helpful", 5)
    budget = 2000
    first, second = book.prompt_parts("case 2000", budget), book.prompt_parts("case 2900", budget)
    assert first.frozen == second.frozen and "Rule 2499 " in first.frozen
    assert "Rule 2000 " in first.relevant and "Rule 2900 " in second.relevant
    assert estimate_tokens(str(first)) <= budget * 1.05
    ids = [line[3:16] for line in first.frozen.splitlines()]
    assert ids == sorted(ids)


def test_skills_that_the_question_chose_do_not_repeat() -> None:
    book = book_of(8)
    chosen = SelectedSkills(SkillbookView(book), book.skills()[2:4])
    assert chosen.prompt_parts("", BUDGET).frozen == ""
    assert chosen.prompt_parts("", BUDGET).relevant.count("\n") == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [BUDGET, 300])
def test_a_process_that_opens_the_book_sees_what_one_sees_that_has_it_open(
    tmp_path: Path, seed: int, budget: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book, Skillbook.open(path) as other:
        book.import_skills(book_of(20))
        for step in range(50):
            _change(chance.choice((book, book, other)), chance, step)
            book.refresh()
            other.refresh()
            parts = book.prompt_parts("case 3", budget)
            with Skillbook.open(path) as opened:
                assert opened.prompt_parts("case 3", budget) == parts, (step, book.version)
            if step % 9 == 0:
                assert other.prompt_parts("case 3", budget) == parts, (step, book.version)


class NotedReads:
    """A store that notes from which versions on its history is read."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.read_after: list[int] = []

    def events(self, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        self.read_after.append(after)
        return self._store.events(after, until)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_the_first_prompt_does_not_replay_a_history_that_added_and_tagged(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        book.import_skills(book_of(20))
        for number in range(20):
            book.tag_skill("section-00003", "helpful")
            book.add_skill("more", f"Further rule {number}.")
        book.update_skill("section-00002", justification="It failed.", metadata={"harmful": 1})
        expected = book.prompt_parts("case 3", 200)
        assert book.version == 42
    store = NotedReads(SqliteStore(path))
    with Skillbook.open(path, store=cast(SkillbookStore, store)) as opened:
        assert opened.prompt_parts("case 3", 200) == expected
        assert store.read_after == [37]
        opened.update_skill("section-00005", content="Another rule.")
        expected = opened.prompt_parts("case 3", 200)
    with Skillbook.open(path) as reopened:
        assert reopened.prompt_parts("case 3", 200) == expected


def _change(book: Skillbook, chance: random.Random, step: int) -> None:
    book.refresh()
    ids = [skill.id for skill in book.skills()]
    one, two = chance.sample(ids, 2)
    match chance.randrange(10):
        case 0 | 1 | 2:
            book.tag_skill(one, chance.choice(("helpful", "harmful")))
        case 3 | 4:
            book.add_skill("new", f"New rule {step}.")
        case 5 | 6:
            book.update_skill(one, content=f"Changed rule {step}.")
        case 7:
            book.remove_skill(one, soft=chance.random() < 0.5)
        case 8:
            book.merge_skills(one, [two])
        case _:
            assert book.version is not None
            book.rollback(max(1, book.version - chance.randrange(1, 5)))
