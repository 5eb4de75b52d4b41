"""What a skillbook does in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ace import ACERunner, ApplyStep, Pipeline, SkillbookView
from ace.skill import InsightSource, SimilarityDecision
from ace.skillbook import Skillbook, SkillbookHistoryError
from tests.core.skillbook.clocks import ticking


@pytest.fixture
def book() -> Skillbook:
    return Skillbook(clock=ticking())


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("geography", "geography-00001"),
        ("Problem Solving", "problem-00001"),
        ("api/errors", "api-00001"),
        ("(misc)", "misc-00001"),
        ("Über uns", "skill-00001"),
        ("", "skill-00001"),
        ("   ", "skill-00001"),
        ("!!!", "skill-00001"),
    ],
)
def test_ids_come_from_the_section(book: Skillbook, section: str, expected: str) -> None:
    assert book.add_skill(section, "Do it.").id == expected


def test_one_counter_for_the_whole_book(book: Skillbook) -> None:
    ids = [book.add_skill(section, "Do it.").id for section in ("a", "b", "a")]
    assert ids == ["a-00001", "b-00002", "a-00003"]


def test_a_new_skill_has_all_that_was_given(book: Skillbook) -> None:
    source = InsightSource("runs.jsonl#1", "Which?", 1, 2, "ace", "wrong", "do it")
    skill = book.add_skill(
        "a", "Do it.", metadata={"helpful": 2}, justification="why", evidence="what", insight_source=source
    )
    assert (skill.section, skill.content, skill.helpful, skill.harmful) == ("a", "Do it.", 2, 0)
    assert (skill.justification, skill.evidence, skill.sources) == ("why", "what", (source,))
    assert skill.created_at == skill.updated_at == "2026-01-01T00:00:00.000000+00:00"
    assert book.get_skill("a-00001") is skill


def test_a_chosen_id_is_kept_and_never_overwritten(book: Skillbook) -> None:
    book.add_skill("a", "First.", "mine-1")
    with pytest.raises(ValueError, match="already a skill 'mine-1'"):
        book.add_skill("a", "Second.", "mine-1")
    assert [skill.content for skill in book.skills()] == ["First."]


def test_the_counter_goes_around_ids_that_are_taken(book: Skillbook) -> None:
    book.add_skill("a", "First.", "a-00001")
    assert book.add_skill("a", "Second.").id == "a-00002"


@pytest.mark.parametrize("content", ["", "  \n", "bad \ud800 half"])
def test_a_content_that_is_no_text_is_refused(book: Skillbook, content: str) -> None:
    with pytest.raises(ValueError, match="content"):
        book.add_skill("a", content)
    assert len(book) == 0


def test_update_changes_what_is_given(book: Skillbook) -> None:
    book.add_skill("a", "Old.", evidence="seen")
    source = InsightSource("t2")
    updated = book.update_skill("a-00001", content="New.", metadata={"harmful": 1}, insight_source=source)
    assert updated is not None
    assert (updated.content, updated.evidence, updated.harmful) == ("New.", "seen", 1)
    assert updated.sources == (source,)
    assert updated.updated_at > updated.created_at
    assert book.update_skill("nobody", content="x") is None


def test_update_moves_a_skill_to_another_section(book: Skillbook) -> None:
    for section in ("a", "b"):
        book.add_skill(section, "Do it.")
    book.update_skill("a-00001", section="b")
    assert book.sections() == {"b": ["b-00002", "a-00001"]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_an_embedding_has_finite_numbers(book: Skillbook, number: float) -> None:
    book.add_skill("a", "Old.")
    with pytest.raises(ValueError, match="finite"):
        book.set_embeddings({"a-00001": [1.0, number]})
    skill = book.get_skill("a-00001")
    assert skill is not None and skill.embedding is None


def test_an_embedding_goes_with_its_content(book: Skillbook) -> None:
    book.add_skill("a", "Old.")
    book.set_embeddings({"a-00001": [1.0, 0.5], "nobody": [1.0]})
    skill = book.get_skill("a-00001")
    assert skill is not None and skill.embedding == b"\x00\x00\x80\x3f\x00\x00\x00\x3f"
    book.tag_skill("a-00001", "helpful")
    tagged = book.get_skill("a-00001")
    assert tagged is not None and tagged.embedding is not None
    changed = book.update_skill("a-00001", content="New.")
    assert changed is not None and changed.embedding is None


def test_tags_add_up(book: Skillbook) -> None:
    book.add_skill("a", "Do it.")
    book.tag_skill("a-00001", "helpful")
    book.tag_skill("a-00001", "helpful", 4)
    book.tag_skill("a-00001", "neutral", increment=2)
    assert book.stats() == {"sections": 1, "skills": 1, "tags": {"helpful": 5, "harmful": 0, "neutral": 2}}


@pytest.mark.parametrize(
    ("skill_id", "tag", "increment", "message"),
    [
        ("nobody", "helpful", 1, "no such skill: 'nobody'"),
        ("a-00001", "great", 1, "'great' is not a tag"),
        ("a-00001", "helpful", -1, "whole number of at least 0"),
        ("a-00001", "helpful", 2**60, "whole number of at least 0"),
    ],
)
def test_a_wrong_tag_is_refused(book: Skillbook, skill_id: str, tag: str, increment: int, message: str) -> None:
    skill = book.add_skill("a", "Do it.")
    with pytest.raises(ValueError, match=message):
        book.tag_skill(skill_id, tag, increment)
    assert book.get_skill("a-00001") == skill


def test_remove_takes_a_skill_out(book: Skillbook) -> None:
    for section in ("a", "b"):
        book.add_skill(section, "Do it.")
    book.remove_skill("a-00001")
    book.remove_skill("nobody")
    assert book.sections() == {"b": ["b-00002"]}
    assert "a-00001" not in book and len(book) == 1
    assert book.add_skill("a", "Again.").id == "a-00003"


def test_soft_removal_hides_a_skill_and_keeps_it(book: Skillbook) -> None:
    book.add_skill("a", "Do it.")
    book.remove_skill("a-00001", soft=True)
    assert len(book) == 0 and book.skills() == [] and book.as_prompt() == "" and book.sections() == {}
    assert [skill.status for skill in book.skills(include_invalid=True)] == ["invalid"]


def test_merge_adds_up_and_points(book: Skillbook) -> None:
    for number in range(3):
        book.add_skill("a", f"Do {number}.", metadata={"helpful": number}, insight_source=InsightSource(f"t{number}"))
    kept = book.merge_skills("a-00001", ["a-00002", "a-00003"], "Do all.")
    assert (kept.content, kept.helpful) == ("Do all.", 3)
    assert [source.trace_id for source in kept.sources] == ["t0", "t1", "t2"]
    others = [skill for skill in book.skills(include_invalid=True) if skill.id != kept.id]
    assert {(skill.status, skill.merged_into) for skill in others} == {("invalid", "a-00001")}
    assert Skillbook.loads(book.dumps()).dumps() == book.dumps()


@pytest.mark.parametrize("ids", [["a-00001"], ["a-00002", "a-00002"], ["nobody"]])
def test_a_merge_that_makes_no_sense_changes_nothing(book: Skillbook, ids: list[str]) -> None:
    for number in range(2):
        book.add_skill("a", f"Do {number}.")
    before = book.dumps()
    with pytest.raises(ValueError, match=r"merge|skill"):
        book.merge_skills("a-00001", ids)
    assert book.dumps() == before


def test_keep_decisions_hold_in_both_orders(book: Skillbook) -> None:
    for number in range(2):
        book.add_skill("a", f"Do {number}.")
    assert not book.has_keep_decision("a-00001", "a-00002")
    book.keep_apart("a-00002", "a-00001", similarity=0.9, reasoning="different")
    assert book.has_keep_decision("a-00001", "a-00002") and book.has_keep_decision("a-00002", "a-00001")
    book.set_similarity_decision("a-00001", "a-00002", SimilarityDecision("MERGE"))
    assert not book.has_keep_decision("a-00001", "a-00002")


def test_sources_tell_which_trace_taught_what(book: Skillbook) -> None:
    book.add_skill("a", "One.", insight_source=InsightSource("t1", "Which city?", 1, 1, "ace"))
    book.add_skill("a", "Two.", insight_source=InsightSource("t2", "Which river?", 2, 1, "ace"))
    book.add_skill("a", "Three.")
    assert list(book.source_map()) == ["a-00001", "a-00002"]
    summary = book.source_summary()
    assert (summary.skills_with_source, summary.skills_without_source) == (2, 1)
    assert (summary.by_trace, summary.by_epoch, summary.by_integration) == (
        {"t1": 1, "t2": 1},
        {1: 1, 2: 1},
        {"ace": 2},
    )
    assert [skill.id for skill in book.source_filter(epoch=2)] == ["a-00002"]
    assert [skill.id for skill in book.source_filter(sample_question="CITY", trace_id="t1")] == ["a-00001"]
    assert book.source_filter(trace_id="t1", epoch=2) == []


def test_import_gives_new_ids_where_they_are_taken(book: Skillbook) -> None:
    other = Skillbook(clock=ticking())
    for target in (book, other):
        target.add_skill("a", f"From {'book' if target is book else 'other'}.", metadata={"helpful": 1})
    other.add_skill("a", "More.")
    other.keep_apart("a-00001", "a-00002")
    imported = book.import_skills(other)
    assert [(skill.id, skill.content) for skill in imported] == [
        ("a-00003", "From other."),
        ("a-00002", "More."),
    ]
    assert book.has_keep_decision("a-00002", "a-00003")
    assert next(iter(book)).content == "From book."


def test_an_empty_book_is_not_false_by_accident(book: Skillbook) -> None:
    assert len(book) == 0 and list(book) == [] and repr(book) == "Skillbook(0 skills)"
    assert book.as_prompt() == book.as_markdown() == book.as_playbook() == ""


def test_history_needs_a_store(book: Skillbook) -> None:
    with pytest.raises(SkillbookHistoryError, match=r"Skillbook\.open"):
        book.history()
    book.refresh()
    book.commit()
    book.close()
    assert book.version is None and book.store is None


def test_same_operations_give_same_bytes() -> None:
    texts = set()
    for _ in range(2):
        book = Skillbook(clock=ticking())
        for number in range(5):
            book.add_skill(f"s{number % 2}", f"Do {number}.")
        book.tag_skill("s0-00001", "harmful")
        book.remove_skill("s0-00003")
        texts.add(book.dumps())
    assert len(texts) == 1


def test_a_list_of_skills_is_the_callers_own_and_of_its_moment(tmp_path: Path) -> None:
    book = Skillbook.open(tmp_path / "skills.db")
    first, second = (book.add_skill("a", content) for content in ("One.", "Two."))
    before = book.skills()
    book.skills().clear()
    assert book.skills() == before == [first, second]
    changes: list[Callable[[], object]] = [
        lambda: book.set_embeddings({first.id: [1.0, 2.0]}),
        lambda: book.tag_skill(first.id, "helpful"),
        lambda: book.remove_skill(second.id, soft=True),
        lambda: book.add_skill("b", "Three."),
        lambda: book.remove_skill(first.id),
        lambda: book.rollback(2),
        lambda: book.update_skill(second.id, section="c"),
    ]
    for change in changes:
        old = book.skills()
        change()
        with Skillbook.open(tmp_path / "skills.db") as again:
            assert book.skills() == again.skills() != old
            assert book.skills(include_invalid=True) == again.skills(include_invalid=True)
    assert before == [first, second]


def test_an_empty_book_is_truthy(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as stored:
        for book in (Skillbook(), Skillbook.open(tmp_path / "skills.json"), stored):
            assert len(book) == 0
            assert (book or Skillbook()) is book
            assert bool(SkillbookView(book)) and len(SkillbookView(book)) == 0


def test_a_runner_that_falls_back_to_a_new_book_learns_into_an_empty_one_that_is_given() -> None:
    class Notes(ACERunner):
        @classmethod
        def from_book(cls, skillbook: Skillbook | None = None) -> Notes:
            skillbook = skillbook or Skillbook()
            return cls(Pipeline([ApplyStep(skillbook)]), skillbook)

    book = Skillbook()
    assert Notes.from_book(book).skillbook is book
