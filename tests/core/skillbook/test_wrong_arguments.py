"""Arguments of the wrong kind are refused with their name, before anything has changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ace import (
    DeduplicationManager,
    LiteLLMClient,
    PersistStep,
    Redactor,
    Reflector,
    ReflectStep,
    Skill,
    Skillbook,
    SkillbookView,
    SkillCase,
    SkillManager,
    TopSkills,
    UpdateBatch,
    UpdateOperation,
    UpdateStep,
    wrap_skillbook_context,
)
from ace.skillbook import SampleKey
from ace.steps import CheckpointStep, ExportSkillbookMarkdownStep, SaveSkillbookStep

Book = Any
"""A skillbook; the types of its methods would refuse the wrong arguments of these tests."""


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """A skillbook in a store, with two skills."""
    made = Skillbook.open(tmp_path / "skills.db")
    for content in ("Check the units.", "Name the country."):
        made.add_skill("m", content)
    return made


UPDATE = UpdateBatch("", [UpdateOperation("ADD", section="m", content="Sort first.")])


def deferred(book: Book, author: Any) -> None:
    with book.deferred_commits(author=author):
        book.add_skill("m", "Sort first.")


def committed(book: Book, **note: Any) -> None:
    with book.deferred_commits():
        book.commit(**note)


WRITES: list[tuple[str, Callable[[Book, Any], object], list[object]]] = [
    ("soft", lambda book, wrong: book.remove_skill("m-00001", soft=wrong), [1, 0, "no", None, b"x"]),
    ("pinned", lambda book, wrong: book.update_skill("m-00001", pinned=wrong), [1, 0, "no", b"x", object()]),
    ("author", lambda book, wrong: book.rollback(1, author=wrong), [b"x", 5, None, "\ud800"]),
    ("author", lambda book, wrong: book.apply_update(UPDATE, author=wrong), [b"x", 5, None, "\ud800"]),
    ("author", lambda book, wrong: committed(book, author=wrong), [b"x", 5, None, "\ud800"]),
    ("author", deferred, [b"x", 5, None, "\ud800"]),
    ("author", lambda book, wrong: book.note_results({}, wrong), [b"x", 5, None, "\ud800"]),
    ("progress", lambda book, wrong: book.apply_update(UPDATE, progress=wrong), [b"x", 5, "\ud800"]),
    ("progress", lambda book, wrong: committed(book, progress=wrong), [b"x", 5, "\ud800"]),
    ("key", lambda book, wrong: book.apply_update(UPDATE, key=wrong), ["run", 5, ("run", 1, "s")]),
    ("key", lambda book, wrong: committed(book, key=wrong), ["run", 5, ("run", 1, "s")]),
    ("key.run", lambda book, wrong: book.apply_update(UPDATE, key=SampleKey(wrong, 1, "s")), [b"x", 5, "\ud800"]),
    ("key.epoch", lambda book, wrong: book.apply_update(UPDATE, key=SampleKey("run", wrong, "s")), ["1", 1.5, True]),
    ("key.sample", lambda book, wrong: book.apply_update(UPDATE, key=SampleKey("run", 1, wrong)), [b"x", 5, "\ud800"]),
    ("skill_id", lambda book, wrong: book.update_skill(wrong, content="x"), [["m-00001"], {}]),
    ("skill_id", lambda book, wrong: book.tag_skill(wrong, "helpful"), [["m-00001"], {}]),
    ("skill_id", lambda book, wrong: book.remove_skill(wrong), [["m-00001"], {}]),
    ("tag", lambda book, wrong: book.tag_skill("m-00001", wrong), [["helpful"], {}]),
    ("merged_ids", lambda book, wrong: book.merge_skills("m-00001", wrong), ["m-00002", 5, None]),
    ("other", lambda book, wrong: book.import_skills(wrong), ["skills.db", None, 5, {}]),
    ("results", lambda book, wrong: book.note_results(wrong), [5, None, "m-00001", []]),
    ("vectors", lambda book, wrong: book.set_embeddings(wrong), [5, None, "m-00001", [[1.0]]]),
    ("problem_with", lambda book, wrong: book.apply_update(UPDATE, problem_with=wrong), [5, "no"]),
]


@pytest.mark.parametrize(("name", "call", "wrong"), WRITES, ids=[f"{at}-{case[0]}" for at, case in enumerate(WRITES)])
def test_a_change_with_a_wrong_argument_changes_nothing(
    book: Book, tmp_path: Path, name: str, call: Callable[[Book, Any], object], wrong: list[object]
) -> None:
    before = book.dumps()
    for value in wrong:
        with pytest.raises((TypeError, ValueError), match=rf"^{re.escape(name)}\b"):
            call(book, value)
        assert (book.dumps(), book.version, book.has_uncommitted_changes) == (before, 2, False), value
    book.add_skill("m", "Sort last.")
    book.close()
    with Skillbook.open(tmp_path / "skills.db") as again:
        assert [skill.content for skill in again] == ["Check the units.", "Name the country.", "Sort last."]
        assert [entry.version for entry in again.history()] == [1, 2, 3]
        assert len(again.as_of(3)) == 3


READS: list[tuple[str, Callable[[Book, Any], object], list[object]]] = [
    ("query", lambda book, wrong: book.as_prompt(query=wrong), [5, b"x", ["x"], object()]),
    ("query", lambda book, wrong: book.as_prompt(100, wrong), [5, b"x", ["x"], object()]),
    ("query", lambda book, wrong: SkillbookView(book).as_prompt(query=wrong), [5, b"x", ["x"]]),
    ("query", lambda book, wrong: book.prompt_parts(wrong, 1), [5, None, b"x", ["x"]]),
    ("query", lambda book, wrong: SkillbookView(book).prompt_parts(wrong, 1), [5, None, b"x"]),
    ("budget_tokens", lambda book, wrong: book.prompt_parts("x", wrong), [None, "5", 1.5, [], -1]),
    ("format", lambda book, wrong: book.as_prompt(format=wrong), [["markdown"], {}]),
    ("count_tokens", lambda book, wrong: book.as_prompt(10, count_tokens=wrong), [5, "x"]),
    ("ranker", lambda book, wrong: book.as_prompt(query="x", ranker=wrong), [5, "x"]),
    ("sections", lambda book, wrong: book.as_markdown(sections=wrong), [5, "m", b"m"]),
    ("first_id", lambda book, wrong: book.get_similarity_decision(wrong, "m-00001"), [5, None, []]),
    ("second_id", lambda book, wrong: book.has_keep_decision("m-00001", wrong), [5, None, []]),
    ("skill_id", lambda book, wrong: book.blame(wrong), [5, None, [], object()]),
    ("mark", lambda book, wrong: book.changed_since(wrong), [5, None, "x"]),
    ("mark", lambda book, wrong: SkillbookView(book).changed_since(wrong), [5, None, "x"]),
    ("after", lambda book, wrong: book.history(wrong), ["1", None, 1.5]),
    ("question", lambda book, wrong: TopSkills(1)(wrong, book), [5, None, b"x"]),
    ("text", lambda book, wrong: Skillbook.from_text(wrong), [5, None, b"x", []]),
    ("text", lambda book, wrong: Skillbook.loads(wrong), [5, None, [], {}]),
    ("path", lambda book, wrong: Skillbook.open(wrong), [5, None, [], b"x"]),
    ("path", lambda book, wrong: Skillbook.load_from_file(wrong), [5, None, [], b"x"]),
    ("path", lambda book, wrong: book.save_to_file(wrong), [5, None, [], b"x"]),
    ("path", lambda book, wrong: book.check_save(wrong), [5, None, [], b"x"]),
    (
        "folder",
        lambda book, wrong: book.save_skill_folder(wrong, name="skills", description="Skills."),
        [5, None, [], b"x"],
    ),
    ("skillbook", lambda book, wrong: PersistStep("AGENTS.md", wrong), [None, "skills.db", Skill]),
    ("skillbook", lambda book, wrong: SaveSkillbookStep("skills.json", wrong), [None, "skills.db", Skill]),
    ("skillbook", lambda book, wrong: CheckpointStep("copies", wrong), [None, "skills.db", Skill]),
    ("skillbook", lambda book, wrong: ExportSkillbookMarkdownStep("skills.md", wrong), [None, "skills.db", Skill]),
    ("skillbook", lambda book, wrong: wrap_skillbook_context(wrong), [None, "skills.db", Skill]),
    ("config", lambda book, wrong: DeduplicationManager(wrong), ["text-embedding-3-small", 5, {}]),
    ("check", lambda book, wrong: SkillCase.make("Why?", wrong), [None, "yes", {}]),
    ("target_path", lambda book, wrong: PersistStep(wrong, book), [None, 5, b"x"]),
    ("path", lambda book, wrong: SaveSkillbookStep(wrong, book), [None, 5, b"x"]),
    ("directory", lambda book, wrong: CheckpointStep(wrong, book), [None, 5, b"x"]),
    ("path", lambda book, wrong: ExportSkillbookMarkdownStep(wrong, book), [None, 5, b"x"]),
]


@pytest.mark.parametrize(("name", "call", "wrong"), READS, ids=[f"{at}-{case[0]}" for at, case in enumerate(READS)])
def test_the_error_for_a_wrong_argument_names_it(
    book: Book, name: str, call: Callable[[Book, Any], object], wrong: list[object]
) -> None:
    for value in wrong:
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
            call(book, value)


def test_a_single_name_is_not_taken_for_its_letters() -> None:
    client = LiteLLMClient("openai/none")
    assert Redactor(secrets="blue house by the sea").redact("a blue house by the sea") == "a [hidden: secret]"
    assert TopSkills(1, pinned_sections="rules").pinned_sections == {"rules"}
    assert ReflectStep(Reflector(client), allow="email_address").allow == {"email_address"}
    assert UpdateStep(SkillManager(client), allow="email_address").allow == {"email_address"}
