"""A pinned skill is shown first, and neither learning, merging nor a removal takes it away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace import wrap_skillbook_for_external_agent
from ace.deduplication import (
    ConsolidationOperation,
    DeduplicationManager,
    DeleteOp,
    MergeOp,
    UpdateOp,
    apply_consolidation_operations,
)
from ace.retrieval import TopSkills
from ace.skill import Skill
from ace.skillbook import EventRefusedError, Skillbook, SkillbookFileError
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking


@pytest.fixture(params=["memory", "json", "db"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Skillbook:
    """A book whose last and least helpful skill is pinned."""
    clock = ticking()
    found = (
        Skillbook(clock=clock)
        if request.param == "memory"
        else Skillbook.open(tmp_path / f"skills.{request.param}", clock=clock)
    )
    for number in range(5):
        found.add_skill("habits", f"Habit number {number} of the house.", metadata={"helpful": 3})
    found.add_skill("rules", "Never touch prod.env.", metadata={"harmful": 9})
    found.update_skill("rules-00006", pinned=True)
    return found


def is_pinned(book: Skillbook, skill_id: str = "rules-00006") -> bool:
    skill = book.get_skill(skill_id)
    assert skill is not None
    return skill.pinned


def ids(skills: list[Skill]) -> list[str]:
    return [skill.id for skill in skills]


def test_a_skill_is_pinned_and_unpinned(book: Skillbook) -> None:
    assert is_pinned(book)
    assert not is_pinned(book, "habits-00001")
    book.update_skill("rules-00006", content="Never touch it.")
    assert is_pinned(book)
    book.update_skill("rules-00006", pinned=False)
    assert not is_pinned(book)
    assert '"pinned"' not in book.dumps()


def test_it_is_pinned_wherever_the_book_is_kept(book: Skillbook, tmp_path: Path) -> None:
    assert is_pinned(Skillbook.loads(book.dumps()))
    assert is_pinned(Skillbook.from_dict(book.to_dict()))
    path = tmp_path / "copy.json"
    book.save_to_file(path)
    assert path.read_text(encoding="utf-8") == book.dumps()
    store = tmp_path / "copy.db"
    with Skillbook.open(path) as again:
        assert is_pinned(again)
        again.save_to_file(store)
    with Skillbook.open(store) as again:
        assert is_pinned(again)
        again.save_to_file(tmp_path / "third.json")
        again.update_skill("habits-00001", pinned=True)
    with Skillbook.open(store) as again:
        assert is_pinned(again, "habits-00001")
    assert is_pinned(Skillbook.open(tmp_path / "third.json"))


def test_a_history_knows_when_it_was_pinned(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("rules", "Never touch prod.env.")
        book.update_skill("rules-00001", pinned=True)
        book.update_skill("rules-00001", pinned=False)
        assert [is_pinned(book.as_of(version), "rules-00001") for version in (1, 2, 3)] == [False, True, False]
        assert book.diff(1, 2).changed
        book.rollback(2)
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert is_pinned(book, "rules-00001")


def test_a_file_whose_pins_are_not_true_or_false_is_refused() -> None:
    data = {"schema_version": 1, "skills": {"a-00001": {"section": "a", "content": "x", "pinned": "yes"}}}
    with pytest.raises(SkillbookFileError, match=r"skills\['a-00001'\]\.pinned: must be true or false, got 'yes'"):
        Skillbook.from_dict(data)


@pytest.mark.parametrize("fields", [{}, {"cases": []}, {"pinned": False}, {"pinned": True, "merged_into": None}])
def test_a_file_edited_by_hand_is_read(book: Skillbook, fields: dict[str, object]) -> None:
    data = json.loads(book.dumps())
    data["skills"]["habits-00001"] |= fields
    assert [skill.pinned for skill in Skillbook.from_dict(data).skills()] == [
        bool(fields.get("pinned")),
        *[False] * 4,
        True,
    ]


def test_it_comes_first_in_every_text(book: Skillbook) -> None:
    whole = book.as_prompt()
    assert whole.startswith("## rules\n- [rules-00006]")
    assert whole.count("[rules-00006]") == 1
    assert book.as_prompt(query="Which habits?").startswith("- [rules-00006]")
    budget = len(whole) // 6
    for text in (book.as_prompt(budget), book.as_prompt(budget, "Which habits?")):
        assert "[rules-00006]" in text and "[habits-00005]" not in text
    assert "[rules-00006]" in wrap_skillbook_for_external_agent(book, 200)
    assert book.as_prompt(10_000) == whole
    for format in ("xml", "toon", "json"):
        assert book.as_prompt(format=format).index("rules-00006") < book.as_prompt(format=format).index("habits-0000")


def test_a_text_that_was_written_before_follows_the_pins(book: Skillbook) -> None:
    book.as_prompt()
    book.update_skill("habits-00003", pinned=True)
    assert book.as_prompt() == Skillbook.loads(book.dumps()).as_prompt()
    assert book.as_prompt().startswith("## habits\n- [habits-00003]")
    book.update_skill("rules-00006", pinned=False)
    book.add_skill("habits", "A further habit.")
    assert book.as_prompt() == Skillbook.loads(book.dumps()).as_prompt()
    book.update_skill("habits-00003", pinned=False)
    assert book.as_prompt() == Skillbook.loads(book.dumps()).as_prompt()
    assert book.as_prompt().startswith("## habits\n- [habits-00001]")


def test_it_is_always_among_the_chosen_ones(book: Skillbook) -> None:
    assert ids(TopSkills(1)("Which habits?", book)) == ["rules-00006"]
    assert ids(TopSkills(2)("Which habit is number 3?", book)) == ["rules-00006", "habits-00004"]
    chosen = ids(TopSkills(2, pinned_sections=["habits"])("What?", book))
    assert chosen == [f"habits-0000{number}" for number in range(1, 6)] + ["rules-00006"]


def test_learning_neither_removes_nor_rewrites_it(book: Skillbook) -> None:
    operations = [
        UpdateOperation("REMOVE", skill_id="rules-00006"),
        UpdateOperation("UPDATE", skill_id="rules-00006", content="Touch prod.env."),
        UpdateOperation("UPDATE", skill_id="rules-00006", section="habits"),
        UpdateOperation("TAG", skill_id="rules-00006", metadata={"helpful": 1}),
        UpdateOperation("UPDATE", skill_id="rules-00006", evidence="It was deleted once."),
    ]
    report = book.apply_update(UpdateBatch("", operations))
    assert [(left.index, left.reason) for left in report.skipped] == [
        (0, "the skill 'rules-00006' is pinned; unpin it before removing it"),
        (1, "the skill 'rules-00006' is pinned; its text and section cannot be changed"),
        (2, "the skill 'rules-00006' is pinned; its text and section cannot be changed"),
    ]
    skill = book.get_skill("rules-00006")
    assert skill is not None
    assert (skill.content, skill.helpful, skill.evidence) == ("Never touch prod.env.", 1, "It was deleted once.")


@pytest.mark.parametrize("soft", [True, False])
def test_it_has_to_be_unpinned_before_it_is_removed(book: Skillbook, soft: bool) -> None:
    with pytest.raises(EventRefusedError, match="'rules-00006' is pinned; unpin it before removing it"):
        book.remove_skill("rules-00006", soft=soft)
    book.update_skill("rules-00006", pinned=False)
    book.remove_skill("rules-00006", soft=soft)
    assert "rules-00006" not in ids(book.skills())


def test_a_process_that_removes_what_another_one_has_pinned_is_told(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as mine, Skillbook.open(tmp_path / "skills.db") as theirs:
        mine.add_skill("rules", "Never touch prod.env.")
        theirs.refresh()
        theirs.update_skill("rules-00001", pinned=True)
        with pytest.raises(EventRefusedError, match="is pinned"):
            mine.remove_skill("rules-00001")
        assert is_pinned(mine, "rules-00001")


def test_it_is_never_merged_away(book: Skillbook) -> None:
    with pytest.raises(EventRefusedError, match="is pinned; unpin it before merging it into another one"):
        book.merge_skills("habits-00001", ["rules-00006"])
    book.merge_skills("rules-00006", ["habits-00001"])
    assert is_pinned(book)


def test_skills_of_its_wording_are_merged_into_it(book: Skillbook) -> None:
    longer = book.add_skill("rules", "Never touch `prod.env`!!!", metadata={"helpful": 9})
    DeduplicationManager().consolidate(book)
    assert longer.id not in ids(book.skills())
    skill = book.get_skill("rules-00006")
    assert skill is not None
    assert (skill.content, skill.helpful) == ("Never touch prod.env.", 9)


def test_two_pinned_skills_of_one_wording_both_stay(book: Skillbook) -> None:
    other = book.add_skill("rules", "Never touch prod.env!")
    book.update_skill(other.id, pinned=True)
    third = book.add_skill("rules", "Never touch prod.env")
    DeduplicationManager().consolidate(book)
    assert {"rules-00006", other.id} <= set(ids(book.skills()))
    assert third.id not in ids(book.skills())


def test_a_model_that_judges_similar_skills_cannot_change_it(book: Skillbook) -> None:
    operations: list[ConsolidationOperation] = [
        DeleteOp("rules-00006"),
        UpdateOp("rules-00006", "Touch it."),
        MergeOp(("rules-00006", "habits-00001"), "habits-00001", "Both."),
        MergeOp(("rules-00006", "habits-00001"), "rules-00006", "Both."),
        MergeOp(("rules-00006", "habits-00002"), "rules-00006"),
    ]
    report = apply_consolidation_operations(operations, book)
    assert report.applied == (operations[-1],)
    assert all("'rules-00006' is pinned" in left.reason for left in report.skipped)
    skill = book.get_skill("rules-00006")
    assert skill is not None
    assert skill.content == "Never touch prod.env."


class Judge:
    """Keeps the question that it is asked, and changes nothing."""

    question = ""

    def consolidate_skills(self, prompt: str) -> dict[str, object]:
        self.question = prompt
        return {"consolidation_operations": []}


def test_a_model_that_judges_similar_skills_is_told_which_ones_are_pinned(book: Skillbook) -> None:
    book.update_skill("habits-00002", pinned=True)
    judge = Judge()
    DeduplicationManager(skill_manager=judge).consolidate(book)
    [line] = [line for line in judge.question.splitlines() if '"id": "habits-00002"' in line]
    assert line.endswith('"pinned": true}')
    assert judge.question.count('"pinned": true}') == 1


def test_an_import_keeps_the_pins(book: Skillbook) -> None:
    other = Skillbook()
    other.add_skill("habits", "Mine.", skill_id="rules-00006")
    [*_, added] = other.import_skills(book)
    assert added.pinned
    assert added.id != "rules-00006"
