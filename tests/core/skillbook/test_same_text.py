"""An ADD of a text that a skill has already: its evidence joins that skill, wherever it was learned."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation

RULE = "Divide amounts in orders by 100."


def add(content: str, number: int = 1, **more: object) -> UpdateOperation:
    source = InsightSource(trace_id=f"trace-{number}", epoch=1, sample_question=f"Question {number}?")
    return UpdateOperation("ADD", "orders", content, insight_source=source, **more)  # type: ignore[arg-type]


def learn(book: Skillbook, *operations: UpdateOperation) -> list[tuple[str, str]]:
    report = book.apply_update(UpdateBatch(reasoning="", operations=list(operations)))
    assert not report.skipped
    return [(done.operation.type, done.skill_id) for done in report.applied]


@pytest.mark.parametrize("again", [RULE, "divide amounts in orders by 100", "Divide  amounts in orders, by 100."])
def test_the_evidence_of_the_same_text_joins_the_skill(again: str) -> None:
    book = Skillbook()
    first, second = (SkillCase.make(f"Question {number}?", CaseCheck("exact", "1")) for number in (1, 2))
    [(_, id)] = learn(book, add(RULE, 1, cases=[first]))
    assert learn(book, add(again, 2, cases=[second], metadata={"helpful": 1})) == [("UPDATE", id)]
    [skill] = book.skills()
    assert (skill.content, skill.section, skill.helpful) == (RULE, "orders", 1)
    assert [source.trace_id for source in skill.sources] == ["trace-1", "trace-2"]
    assert {case.question for case in skill.cases} == {"Question 1?", "Question 2?"}


def test_white_space_in_the_section_makes_no_other_section() -> None:
    book = Skillbook()
    operations = [UpdateOperation("ADD", section, RULE) for section in ("open  orders", " open orders ")]
    learn(book, *operations)
    assert [skill.section for skill in book.skills()] == ["open orders"]


@pytest.mark.parametrize(
    "other", ["Divide amounts in orders by 1000.", "Divide amounts in Orders by 100.", "Divide amounts by 100."]
)
def test_another_text_is_another_skill(other: str) -> None:
    book = Skillbook()
    learn(book, add(RULE), add(other))
    assert len(book.skills()) == 2


def test_the_same_text_in_another_section_is_another_skill() -> None:
    """A section may say where a skill applies, such as on one web site."""
    book = Skillbook()
    learn(book, add(RULE), UpdateOperation("ADD", "invoices", RULE))
    assert [skill.section for skill in book.skills()] == ["orders", "invoices"]


def test_the_same_text_twice_in_one_batch_is_one_skill() -> None:
    book = Skillbook()
    [(kind, id), again] = learn(book, add(RULE, 1), add(RULE, 2))
    assert kind == "ADD" and again == ("UPDATE", id)


def test_a_removed_or_rewritten_skill_does_not_count() -> None:
    book = Skillbook()
    [(_, removed)] = learn(book, add(RULE))
    book.remove_skill(removed, soft=True)
    [(kind, rewritten)] = learn(book, add(RULE))
    assert kind == "ADD"
    book.update_skill(rewritten, content="Amounts are in cents.")
    assert learn(book, add(RULE))[0][0] == "ADD"
    assert learn(book, add("Amounts are in cents.")) == [("UPDATE", rewritten)]


def test_a_pinned_skill_keeps_its_text_and_gets_the_evidence() -> None:
    book = Skillbook()
    [(_, id)] = learn(book, add(RULE, 1))
    book.update_skill(id, pinned=True)
    assert learn(book, add(RULE, 2)) == [("UPDATE", id)]
    assert len(book.skills()[0].sources) == 2


def test_a_store_that_is_opened_again_knows_its_texts(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        [(_, id)] = learn(book, add(RULE, 1))
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert learn(book, add(RULE, 2)) == [("UPDATE", id)]
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert [len(skill.sources) for skill in book.skills()] == [2]
