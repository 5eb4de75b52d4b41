"""The rule that merges similar skills without a model."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ace.deduplication import DeduplicationConfig, DeduplicationManager
from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook import Skillbook
from tests.support.command_line import ace
from tests.support.role_inputs import book_with

FACTS = (
    "Maintain factual knowledge for accuracy.",
    "Maintaining factual knowledge is crucial.",
    "Maintain the factual knowledge, which is crucial for accuracy.",
)
LEXICAL = DeduplicationConfig(rule="longest", embedding_provider="lexical")


@pytest.mark.parametrize("order", list(itertools.permutations(FACTS)))
def test_the_longest_text_and_the_oldest_id_are_kept(order: tuple[str, ...]) -> None:
    book = Skillbook()
    for number, content in enumerate(order):
        source = InsightSource(trace_id=f"trace-{number}")
        book.add_skill("facts", content, metadata={"helpful": 1, "harmful": number}, insight_source=source)
    result = DeduplicationManager(LEXICAL).consolidate(book)
    [kept] = book.skills()
    assert (kept.id, kept.content) == ("facts-00001", FACTS[2])
    assert (kept.helpful, kept.harmful) == (3, 3)
    assert {source.trace_id for source in kept.sources} == {"trace-0", "trace-1", "trace-2"}
    assert [operation.type for operation in result.applied] == ["MERGE"]


def test_the_default_rule_keeps_similar_skills() -> None:
    book = book_with(*FACTS)
    config = DeduplicationConfig(embedding_provider="lexical")
    assert DeduplicationManager(config).consolidate(book).applied == ()
    assert len(book) == 3


def test_a_pinned_skill_keeps_its_text_and_its_id() -> None:
    book = book_with(*FACTS)
    book.update_skill("maths-00002", pinned=True)
    DeduplicationManager(LEXICAL).consolidate(book)
    assert [(skill.id, skill.content) for skill in book.skills()] == [("maths-00002", FACTS[1])]


def test_a_skill_with_a_case_is_not_merged_without_a_proof() -> None:
    book = book_with(FACTS[2])
    case = SkillCase.make("What is crucial?", CaseCheck("contains", "knowledge"), expected="knowledge")
    book.add_skill("maths", FACTS[1], cases=[case])
    result = DeduplicationManager(LEXICAL).consolidate(book)
    assert [skill.content for skill in book.skills()] == [FACTS[2], FACTS[1]]
    assert "it is not proven" in result.skipped[0].reason


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="rule must be 'wording' or 'longest', got 'shortest'"):
        DeduplicationConfig(rule="shortest")


def test_the_command_merges_similar_skills_and_a_rollback_restores_them(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        for content in FACTS:
            book.add_skill("facts", content)
    done = ace("skillbook", "dedup", "--rule", "longest", "--embedding-provider", "lexical", folder=tmp_path)
    assert done.code == 0 and "merged" in done.out, done.err
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert [skill.content for skill in book.skills()] == [FACTS[2]]
        book.rollback(len(FACTS))
        assert [skill.content for skill in book.skills()] == list(FACTS)
