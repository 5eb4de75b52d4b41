"""Operations on similar skills: read as models write them, carried out without a loss."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ace.deduplication import (
    ConsolidationOperation,
    DeleteOp,
    KeepOp,
    MergeOp,
    UpdateOp,
    apply_consolidation_operations,
    parse_consolidation_operations,
)
from ace.skill import InsightSource
from ace.skillbook import Skillbook
from tests.support.role_inputs import book_with


def test_what_can_be_read_is_read(caplog: pytest.LogCaptureFixture) -> None:
    operations = parse_consolidation_operations(
        {
            "reasoning": "r",
            "consolidation_operations": [
                {"type": "merge", "source_ids": ["a", "b"], "keep_id": "a", "merged_content": "ab"},
                {"type": "MERGE", "source_ids": "a,b", "keep_id": "a"},
                {"type": "MERGE", "source_ids": ["a", 2], "keep_id": "a"},
                "DELETE a",
                {"type": "DELETE"},
                {"type": "EXPLODE", "skill_id": "a"},
                {"type": "KEEP", "skill_ids": ["a", "b", "a"], "differentiation": "d"},
                {"type": "UPDATE", "skill_id": "a", "new_content": " "},
                {"type": " update ", "skill_id": "a", "new_content": "n", "reasoning": None},
                {"type": "DELETE", "skill_id": "c", "reasoning": "r"},
            ],
        }
    )
    assert operations == [
        MergeOp(("a", "b"), "a", "ab"),
        KeepOp(("a", "b"), "d"),
        UpdateOp("a", "n"),
        DeleteOp("c", "r"),
    ]
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [
        1, 2, 3, 4, 5, 7,
    ]  # fmt: skip


@pytest.mark.parametrize("data", [None, {}, {"consolidation_operations": None}, [], "MERGE", 7, {"x": []}])
def test_nothing_is_read_from_nothing(data: object) -> None:
    assert parse_consolidation_operations(data) == []


def merging_book() -> Skillbook:
    book = Skillbook()
    for number in (1, 2, 3):
        source = InsightSource(trace_id=f"runs#{number}")
        counts = {"helpful": number, "harmful": 1}
        book.add_skill("maths", "Check." + " Twice." * number, metadata=counts, insight_source=source)
    return book


def test_a_merge_adds_counters_and_joins_sources() -> None:
    book = merging_book()
    merge = MergeOp(("maths-00001", "maths-00003"), "maths-00001")
    report = apply_consolidation_operations([merge], book)
    assert report.applied == (merge,)
    assert report.skipped == ()
    kept, gone = book.get_skill("maths-00001"), book.get_skill("maths-00003")
    assert kept is not None and gone is not None
    assert kept.counts() == {"helpful": 4, "harmful": 2, "neutral": 0}
    assert kept.content == "Check. Twice. Twice. Twice.", "the longest text stays"
    assert [source.trace_id for source in kept.sources] == ["runs#1", "runs#3"]
    assert (gone.status, gone.merged_into) == ("invalid", "maths-00001")


def test_a_skill_is_settled_once(caplog: pytest.LogCaptureFixture) -> None:
    book = merging_book()
    operations: list[ConsolidationOperation] = [
        MergeOp(("maths-00001", "maths-00002"), "maths-00001", "Both."),
        MergeOp(("maths-00002", "maths-00003"), "maths-00003", "Other."),
        MergeOp(("maths-00001", "maths-00003"), "maths-00001", "Overwritten."),
        DeleteOp("maths-00001"),
        UpdateOp("maths-00001", "Overwritten."),
        DeleteOp("gone-00009"),
        MergeOp(("maths-00003",), "maths-00003"),
        UpdateOp("maths-00003", "Changed."),
    ]
    with caplog.at_level(logging.WARNING):
        report = apply_consolidation_operations(operations, book)
    assert report.applied == (operations[0], operations[-1])
    assert [item.operation for item in report.skipped] == operations[1:-1]
    assert len(caplog.records) == len(report.skipped)
    assert [skill.content for skill in book.skills()] == ["Both.", "Changed."]


def test_pairs_that_are_kept_apart_are_not_merged_and_the_heir_keeps_the_distance() -> None:
    book = merging_book()
    apply_consolidation_operations([KeepOp(("maths-00001", "maths-00002"), "other numbers")], book)
    decision = book.get_similarity_decision("maths-00002", "maths-00001")
    assert decision is not None and decision.reasoning == "other numbers"
    refused = apply_consolidation_operations([MergeOp(("maths-00001", "maths-00002"), "maths-00001")], book)
    assert refused.applied == () and "judged to be different" in refused.skipped[0].reason
    apply_consolidation_operations([MergeOp(("maths-00002", "maths-00003"), "maths-00003")], book)
    assert book.has_keep_decision("maths-00001", "maths-00003")


def test_a_deletion_can_be_taken_back(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.import_skills(book_with("One.", "Two.", "Three."))
        before, version = book.dumps(), book.version
        assert version is not None
        apply_consolidation_operations(
            [
                DeleteOp("maths-00001"),
                KeepOp(("maths-00002", "maths-00003")),
                UpdateOp("maths-00003", "3."),
            ],
            book,
        )
        assert book.version == version + 1, "one commit"
        assert book.history()[-1].author == "deduplication"
        gone = book.get_skill("maths-00001")
        assert gone is not None and gone.content == "One." and not gone.is_active
        book.rollback(version)
        assert book.dumps() == before
