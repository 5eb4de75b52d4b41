"""Pending and rejected skills: no prompt shows them, and files, stores and the history keep them with their reasons."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ace.skill import INVALID, PENDING, CaseCheck, InsightSource, Skill, SkillCase
from ace.skillbook import Skillbook, SkillbookFileError
from ace.skillbook.pruning import PruneRules, skills_to_prune
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking

CASE = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"), evidence="person")
SOURCE = InsightSource("t1", "When?", evidence="recovery")


def lesson(
    content: str = "Check the units.", pending: str = "nobody judged the answer", **more: Any
) -> UpdateOperation:
    return UpdateOperation("ADD", section="a", content=content, pending=pending, **more)


def apply(book: Skillbook, *operations: UpdateOperation) -> list[str]:
    return [skipped.reason for skipped in book.apply_update(UpdateBatch("", operations)).skipped]


def skill_of(book: Skillbook, skill_id: str = "a-00001") -> Skill:
    skill = book.get_skill(skill_id)
    assert skill is not None
    return skill


@pytest.fixture(params=["memory", "json", "db"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Skillbook:
    if request.param == "memory":
        return Skillbook(clock=ticking())
    return Skillbook.open(tmp_path / f"skills.{request.param}", clock=ticking())


def test_a_pending_skill_is_in_the_book_and_in_no_prompt(book: Skillbook) -> None:
    assert apply(book, lesson(), lesson("Sort the list.", pending="")) == []
    assert [(skill.status, skill.reason) for skill in book.pending_skills()] == [(PENDING, "nobody judged the answer")]
    assert [skill.content for skill in book] == ["Sort the list."]
    shown = [
        book.as_prompt(),
        book.as_prompt(query="Sort the list of units"),
        book.prompt_parts("Check the units", 1000).frozen,
        book.as_markdown(),
        book.as_playbook(),
        book.as_bullets(),
    ]
    assert all("Sort the list." in text and "units" not in text for text in shown)


def test_an_update_that_is_not_pending_makes_a_pending_skill_active(book: Skillbook) -> None:
    apply(book, lesson())
    source = InsightSource("t2", evidence="person")
    update = UpdateOperation("UPDATE", skill_id="a-00001", content="Check all units.", insight_source=source)
    assert apply(book, update) == []
    skill = skill_of(book)
    assert (skill.content, skill.status, skill.reason) == ("Check all units.", "active", "")
    assert skill.evidences == ("person",)


def test_an_update_without_texts_makes_a_pending_skill_active(book: Skillbook) -> None:
    apply(book, lesson())
    assert apply(book, UpdateOperation("UPDATE", skill_id="a-00001", insight_source=SOURCE)) == []
    assert skill_of(book).is_active


def test_a_pending_update_leaves_the_text_of_a_pending_skill(book: Skillbook) -> None:
    apply(book, lesson(insight_source=SOURCE))
    source = InsightSource("t2")
    update = UpdateOperation(
        "UPDATE", section="b", skill_id="a-00001", content="x", pending="not judged", insight_source=source
    )
    assert apply(book, update) == []
    skill = skill_of(book)
    assert (skill.section, skill.content, skill.reason) == ("a", "Check the units.", "nobody judged the answer")
    assert skill.is_pending and skill.sources == (SOURCE, source)


def test_a_pending_update_of_an_active_skill_is_skipped_with_its_reason(book: Skillbook) -> None:
    skill = book.add_skill("a", "Check the units.")
    update = UpdateOperation("UPDATE", skill_id=skill.id, content="x", cases=[CASE], pending="its proof failed")
    assert apply(book, update) == ["its proof failed"]
    assert book.get_skill(skill.id) == skill


def test_a_person_accepts_a_pending_skill(book: Skillbook) -> None:
    apply(book, lesson())
    assert book.accept_skill("a-00001").reason == ""
    assert book.as_prompt() == "## a\n- [a-00001] Check the units."


def test_a_rejected_skill_keeps_its_reason_and_can_be_accepted_later(book: Skillbook) -> None:
    apply(book, lesson())
    rejected = book.reject_skill("a-00001", "It holds for one customer only.")
    assert (rejected.status, rejected.reason) == (INVALID, "It holds for one customer only.")
    assert book.rejected_skills() == [rejected] and book.pending_skills() == []
    assert len(book) == 0
    assert book.accept_skill("a-00001").is_active


@pytest.mark.parametrize(
    ("decide", "reason"),
    [
        (lambda book: book.accept_skill("a-00009"), "no such skill: 'a-00009'"),
        (lambda book: book.reject_skill("a-00009", "wrong"), "no such skill: 'a-00009'"),
        (lambda book: book.accept_skill("a-00001"), "the skill 'a-00001' is neither pending nor rejected"),
        (lambda book: book.reject_skill("a-00001", " "), "because must not be empty: later reflections are shown"),
        (lambda book: book.reject_skill("a-00002", "wrong"), "the skill 'a-00002' is pinned; unpin it"),
        (lambda book: book.reject_skill("a-00003", "wrong"), "the skill 'a-00003' is not active or pending"),
        (lambda book: book.accept_skill("a-00003"), "the skill 'a-00003' is neither pending nor rejected"),
    ],
    ids=[
        "accept-unknown",
        "reject-unknown",
        "accept-active",
        "no-reason",
        "pinned",
        "reject-removed",
        "accept-removed",
    ],
)
def test_decisions_that_are_not_possible(book: Skillbook, decide: Any, reason: str) -> None:
    for content in ("one", "two", "three"):
        book.add_skill("a", content)
    book.update_skill("a-00002", pinned=True)
    book.remove_skill("a-00003", soft=True)
    before = book.dumps()
    with pytest.raises(ValueError, match=f"^{reason}"):
        decide(book)
    assert book.dumps() == before


def test_a_file_and_a_store_keep_evidence_and_reasons(tmp_path: Path) -> None:
    book = Skillbook(clock=ticking())
    apply(book, lesson(insight_source=SOURCE, cases=[CASE]), lesson("Sort the list."))
    book.reject_skill("a-00002", "Nobody sorts.")
    for name in ("skills.json", "skills.db"):
        book.save_to_file(tmp_path / name)
        read = Skillbook.load_from_file(tmp_path / name)
        assert read.to_dict() == book.to_dict()
        assert skill_of(read).evidences == ("recovery", "person")
        assert skill_of(read, "a-00002").reason == "Nobody sorts."
    assert json.loads(book.dumps()) == book.to_dict()


def test_an_older_file_loads_as_before_and_is_written_as_before() -> None:
    old = Skillbook(clock=ticking())
    case = SkillCase.make("When?", CaseCheck("contains", "14h30"))
    skill = old.add_skill("a", "Check the units.", insight_source=InsightSource("t1", "When?"), cases=[case])
    text = old.dumps()
    assert '"reason"' not in text and text.count('"evidence"') == 1  # the field of the skill itself
    read = Skillbook.loads(text)
    assert skill_of(read) == skill and skill.is_active
    assert (skill.cases[0].evidence, skill.sources[0].evidence) == ("truth", "none")
    assert read.dumps() == text


@pytest.mark.parametrize("place", ["sources", "cases"])
def test_a_file_with_an_unknown_kind_of_evidence_is_refused(place: str) -> None:
    book = Skillbook()
    apply(book, lesson(insight_source=SOURCE, cases=[CASE]))
    data: Any = book.to_dict()
    data["skills"]["a-00001"][place][0]["evidence"] = "rumour"
    reason = rf"skills\['a-00001'\].{place}\[0\].evidence: must be one of truth, recovery, failure, person, none"
    with pytest.raises(SkillbookFileError, match=reason):
        Skillbook.from_dict(data)


def test_an_operation_with_unknown_evidence_is_skipped(book: Skillbook) -> None:
    unknown: Any = "rumour"
    source = UpdateOperation("ADD", section="a", content="x", insight_source=InsightSource("t1", evidence=unknown))
    case = UpdateOperation("ADD", section="a", content="x", cases=[SkillCase.make("q", CASE.check, evidence=unknown)])
    wanted = "must be one of truth, recovery, failure, person, none, got 'rumour'"
    assert apply(book, source, case) == [f"insight_source.evidence {wanted}", f"cases[0].evidence {wanted}"]


def test_an_operation_round_trips_through_its_dict() -> None:
    operation = lesson(insight_source=SOURCE, cases=(CASE,))
    assert UpdateOperation.from_dict(operation.to_dict()) == operation
    with pytest.raises(ValueError, match=r"'insight_source\.evidence' must be one of truth, .*, got 'rumour'"):
        UpdateOperation.from_dict({**operation.to_dict(), "insight_source": {"trace_id": "t", "evidence": "rumour"}})


def test_the_history_replays_decisions(tmp_path: Path) -> None:
    book = Skillbook.open(tmp_path / "skills.db", clock=ticking())
    apply(book, lesson(cases=[CASE], insight_source=SOURCE), lesson("Sort the list."))
    book.accept_skill("a-00001")
    book.reject_skill("a-00002", "Nobody sorts.")
    assert [skill.status for skill in book.as_of(1).skills(include_invalid=True)] == [PENDING, PENDING]
    assert book.as_of(3).to_dict()["skills"] == book.to_dict()["skills"]
    book.rollback(1)
    assert [skill.reason for skill in book.pending_skills()] == ["nobody judged the answer"] * 2


def test_a_prompt_that_was_frozen_before_an_acceptance_shows_it_as_a_change(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db", clock=ticking()) as book:
        apply(book, lesson("Sort the list.", pending=""), lesson())
        assert book.prompt_parts("", 1000).frozen == "- [a-00001] Sort the list."
        book.accept_skill("a-00002")
        parts = book.prompt_parts("", 1000)
        assert "Check the units." in parts.frozen + parts.changes
    with Skillbook.open(tmp_path / "skills.db") as again:
        assert again.prompt_parts("", 1000) == parts


def test_pruning_keeps_pending_and_rejected_skills(book: Skillbook) -> None:
    apply(book, lesson(), lesson("Sort the list."), lesson("x", pending=""))
    book.reject_skill("a-00002", "Nobody sorts.")
    book.remove_skill("a-00003", soft=True)
    found = skills_to_prune(book.skills(include_invalid=True), PruneRules(invalid=True), datetime.now(UTC))
    assert [pruned.skill.id for pruned in found] == ["a-00003"]


def test_importing_keeps_pending_skills_pending(book: Skillbook) -> None:
    other = Skillbook()
    apply(other, lesson())
    book.import_skills(other)
    assert [skill.reason for skill in book.pending_skills()] == ["nobody judged the answer"]


@pytest.fixture
def store(tmp_path: Path) -> Skillbook:
    book = Skillbook.open(tmp_path / "undone.db", clock=ticking())
    apply(book, lesson(), lesson("Sort the list."), lesson("Add slowly.", pending=""))
    return book


def test_an_undone_acceptance_leaves_the_skill_pending_for_its_old_reason(store: Skillbook) -> None:
    before = store.as_prompt()
    store.accept_skill("a-00001")
    store.tag_skill("a-00001", "helpful")
    [undone] = store.undo_decisions(["a-00001"])
    assert (undone.status, undone.reason, undone.helpful) == (PENDING, "nobody judged the answer", 1)
    assert store.as_prompt() == before
    assert store.accept_skill("a-00001").is_active


def test_an_undone_rejection_is_a_proposal_again(store: Skillbook) -> None:
    store.reject_skill("a-00001", "It is wrong.")
    store.reject_skill("a-00003", "It is wrong, too.")
    assert store.version == 3
    undone = store.undo_decisions(["a-00001", "a-00003"])
    assert [(skill.status, skill.reason) for skill in undone] == [(PENDING, "nobody judged the answer"), ("active", "")]
    assert store.version == 4


@pytest.mark.parametrize(
    ("skill_id", "problem"),
    [
        ("a-00002", "is pending: it was not accepted or rejected"),
        ("a-00003", "was neither accepted nor rejected"),
        ("a-00009", "no such skill"),
    ],
)
def test_where_there_is_no_decision_nothing_is_undone(store: Skillbook, skill_id: str, problem: str) -> None:
    store.accept_skill("a-00001")
    with pytest.raises(ValueError, match=problem):
        store.undo_decisions(["a-00001", skill_id])
    assert skill_of(store).is_active


def test_the_acceptance_of_a_removed_skill_cannot_be_undone(store: Skillbook) -> None:
    store.accept_skill("a-00001")
    store.remove_skill("a-00001", soft=True)
    with pytest.raises(ValueError, match="was removed or merged"):
        store.undo_decisions(["a-00001"])
