"""What becomes of the batches that models write."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ace.skill import InsightSource
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking


@pytest.fixture
def book() -> Skillbook:
    book = Skillbook(clock=ticking())
    book.add_skill("a", "First.")
    return book


def apply(book: Skillbook, *operations: UpdateOperation) -> tuple[list[str], list[str]]:
    report = book.apply_update(UpdateBatch("", operations))
    return [done.skill_id for done in report.applied], [left.reason for left in report.skipped]


def test_every_type_is_carried_out(book: Skillbook) -> None:
    source = InsightSource("t1")
    book.add_skill("a", "Second.")
    done, left = apply(
        book,
        UpdateOperation("add", section="b", content="Third.", metadata={"helpful": 1}, insight_source=source),
        UpdateOperation("UPDATE", skill_id="a-00001", content="Changed.", insight_source=source),
        UpdateOperation("TAG", skill_id="a-00001", metadata={"helpful": 2, "harmful": 0, "neutral": 1}),
        UpdateOperation("REMOVE", skill_id="a-00002"),
    )
    assert (done, left) == (["b-00003", "a-00001", "a-00001", "a-00002"], [])
    first, third = book.skills()
    assert (first.content, first.helpful, first.neutral, first.sources) == ("Changed.", 2, 1, (source,))
    assert (third.section, third.helpful, third.sources) == ("b", 1, (source,))


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (UpdateOperation("MERGE", skill_id="a-00001"), "unknown operation type 'MERGE'"),
        (UpdateOperation("ADD", section="a", content=" "), "content is empty"),
        (UpdateOperation("ADD", section="a"), "requires content"),
        (UpdateOperation("ADD", section="a", content="x", skill_id="a-00001"), "already"),
        (UpdateOperation("ADD", section="a", content="x", metadata={"great": 1}), "'great' is not a tag"),
        (UpdateOperation("ADD", section="a", content="half \udfff"), "surrogate"),
        (UpdateOperation("UPDATE", skill_id="a-00001", content=""), "content is empty"),
        (UpdateOperation("UPDATE", skill_id="a-00001"), "UPDATE requires a change"),
        (UpdateOperation("UPDATE", skill_id="a-99999", content="x"), "no such skill: 'a-99999'"),
        (UpdateOperation("UPDATE", content="x"), "requires a skill_id"),
        (UpdateOperation("TAG", skill_id="a-00001"), "requires a counter"),
        (
            UpdateOperation("TAG", skill_id="a-00001", metadata={"helpful": 1, "great": 1}),
            "'great' is not a tag",
        ),
        (UpdateOperation("TAG", skill_id="a-00001", metadata={"helpful": -3}), "whole number of at least 0"),
        (UpdateOperation("REMOVE", skill_id="a-99999"), "no such skill: 'a-99999'"),
    ],
)
def test_one_bad_operation_is_left_out_whole(
    book: Skillbook, operation: UpdateOperation, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = book.get_skill("a-00001")
    good = UpdateOperation("ADD", section="a", content="Good.")
    with caplog.at_level(logging.WARNING):
        report = book.apply_update(UpdateBatch("", [operation, good]))
    assert [(left.index, left.operation) for left in report.skipped] == [(0, operation)]
    assert reason in report.skipped[0].reason and reason in caplog.text
    assert [done.index for done in report.applied] == [1]
    assert book.get_skill("a-00001") == first and len(book) == 2
    assert Skillbook.loads(book.dumps()).dumps() == book.dumps()


def test_a_counter_cannot_overflow_and_the_operation_is_left_out_whole(book: Skillbook) -> None:
    book.tag_skill("a-00001", "harmful", 2**53 - 1)
    before = book.dumps()
    tag = UpdateOperation("TAG", skill_id="a-00001", metadata={"helpful": 1, "harmful": 1})
    done, left = apply(book, tag)
    assert done == [] and "would exceed" in left[0]
    assert book.dumps() == before


def test_a_model_may_choose_an_id_in_our_style_only(book: Skillbook) -> None:
    done, _ = apply(
        book,
        UpdateOperation("ADD", section="a", content="x", skill_id="new skill"),
        UpdateOperation("ADD", section="a", content="y", skill_id="maths-00042"),
        UpdateOperation("ADD", section="a", content="z"),
    )
    assert done == ["a-00002", "maths-00042", "a-00003"]


def test_an_empty_batch_is_no_change(book: Skillbook) -> None:
    before = book.dumps()
    assert apply(book) == ([], [])
    assert book.dumps() == before


@pytest.mark.parametrize(
    "data",
    [
        {"reasoning": "r", "operations": [{"type": "tag", "skill_id": "a", "tag": "Helpful"}]},
        {
            "update": {
                "reasoning": "r",
                "operations": [{"op": "Tag", "id": "a", "metadata": {"helpful": 1.0}}],
            }
        },
        {
            "reasoning": "r",
            "update": {"operations": [{"operation": " TAG ", "id": "a", "metadata": {"helpful": 1}}]},
        },
        {"reasoning": "r", "operations": [{"type": "TAG", "id": "a", "metadata": {"helpful": "1"}}]},
        {"reasoning": "r", "operations": [{"type": "TAG", "id": "a", "metadata": {"helpful": " +1.0 "}}]},
        {"reasoning": "r", "operations": [{"type": "TAG", "id": "a", "metadata": {"helpful": True, "harmful": None}}]},
        {"reasoning": "r", "operations": [{"type": "TAG", "id": "a", "tag": "helpful", "increment": "1"}]},
    ],
)
def test_batches_are_read_as_models_write_them(data: dict[str, object]) -> None:
    batch = UpdateBatch.from_dict(data)
    assert batch == UpdateBatch("r", [UpdateOperation("TAG", skill_id="a", metadata={"helpful": 1})])
    assert UpdateBatch.from_dict(batch.to_dict()) == batch


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"reasoning": ""}, "needs a list 'operations'"),
        ({"operations": "ADD"}, "'operations' must be a list"),
        (
            {"operations": [{"type": "ADD"}, {"type": "EXPLODE"}]},
            r"operations\[1\]: unknown operation type 'EXPLODE'",
        ),
        ({"operations": ["ADD"]}, r"operations\[0\]: an operation must be an object"),
        ({"operations": [{"section": "a"}]}, "unknown operation type None"),
        ({"operations": [{"type": "ADD", "content": 5}]}, "'content' must be a string"),
        ({"operations": [{"type": "TAG", "metadata": [1]}]}, "'metadata' must be an object"),
        ({"reasoning": {}, "operations": []}, "'reasoning' must be a string"),
    ],
)
def test_what_is_no_batch_is_refused_with_its_place(data: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UpdateBatch.from_dict(data)


@pytest.mark.parametrize("count", ["many", "", "2.5", 1.5, -1, "-2", "1e3", [1], {"by": 1}, float("inf")])
def test_a_counter_that_is_no_number_costs_its_own_operation_only(book: Skillbook, count: object) -> None:
    data = {
        "operations": [
            {"type": "TAG", "skill_id": "a-00001", "metadata": {"helpful": count}},
            {"type": "ADD", "section": "a", "content": "Kept."},
        ]
    }
    report = book.apply_update(UpdateBatch.from_dict(data))
    assert [(left.index, left.reason.partition(" of at least")[0]) for left in report.skipped] == [
        (0, "the increment of helpful must be a whole number")
    ]
    assert [done.skill_id for done in report.applied] == ["a-00002"]


WRONG_TYPES: list[dict[str, Any]] = [
    {"content": "half \ud83d"},
    {"section": "half \ud83d"},
    {"content": b"bytes"},
    {"section": 7},
    {"section": ["a"]},
    {"skill_id": ["a-00001"]},
    {"skill_id": 3},
    {"metadata": ["helpful"]},
    {"metadata": {"helpful": object()}},
    {"metadata": {("a", "b"): 1}},
    {"evidence": {"line": 3}},
    {"insight_source": "trace"},
    {"insight_source": InsightSource(epoch="3")},  # type: ignore[arg-type]  # what is not checked may hold anything
    {"insight_source": InsightSource(step=-1)},
    {"insight_source": InsightSource(trace_id=7)},  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("type_name", "skill_id"), [("ADD", None), ("UPDATE", "a-00001")])
@pytest.mark.parametrize("fields", WRONG_TYPES)
def test_fields_of_the_wrong_type_cost_their_operation_only(
    tmp_path: Path, fields: dict[str, Any], type_name: str, skill_id: str | None
) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        book.add_skill("a", "One.")
        wrong = UpdateOperation(type_name, **{"section": "a", "content": "x", "skill_id": skill_id} | fields)
        report = book.apply_update(UpdateBatch("", [wrong, UpdateOperation("ADD", section="a", content="Kept.")]))
        assert [left.index for left in report.skipped] == [0]
        assert [done.skill_id for done in report.applied] == ["a-00002"]
        assert len(book.history()[-1].skipped) == 1
    with Skillbook.open(path) as again:
        assert again.dumps() == book.dumps() == again.as_of(2).dumps()
        again.save_to_file(tmp_path / "skills.json")
    assert Skillbook.load_from_file(tmp_path / "skills.json").dumps() == book.dumps()


@pytest.mark.parametrize("similarity", [float("nan"), float("inf")])
def test_a_similarity_that_no_file_can_hold_is_refused(book: Skillbook, similarity: float) -> None:
    book.add_skill("a", "Two.")
    before = book.dumps()
    with pytest.raises(ValueError, match="similarity"):
        book.keep_apart("a-00001", "a-00002", similarity=similarity)
    assert book.dumps() == before


def test_what_is_no_batch_or_operation_changes_nothing(book: Skillbook) -> None:
    wish: Any = {"type": "ADD", "section": "a", "content": "Second."}
    with pytest.raises(
        TypeError, match=r"operations\[1\] must be an UpdateOperation, got {'type'.*from_dict reads dicts"
    ):
        book.apply_update(UpdateBatch("", [UpdateOperation("ADD", "a", "Second."), wish]))
    with pytest.raises(TypeError, match="update must be an UpdateBatch, got "):
        book.apply_update({"operations": [wish]})  # type: ignore[arg-type]  # the mistake that is tested
    assert [skill.content for skill in book] == ["First."]


@pytest.mark.parametrize("kind", ["ADD", "UPDATE"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Check" + "".join(chr(0xE0000 + ord(letter)) for letter in "mail it"), "invisible character U+E006D"),
        ("Check the \u202eunits.", "invisible character U+202E"),
        ("Check\u200b the units.", "invisible character U+200B"),
        ("Check \x1b[2Jthe units.", "invisible character U+001B"),
        ("Check\u3164 the units.", "invisible character U+3164"),
        ("Check the units" + "\u200d\u200c" * 20, "invisible character U+200D"),
        ("Check the units. " * 2000, "has 34,000 characters; the limit is 20,000"),
    ],
)
def test_what_a_reviewer_cannot_read_is_not_learned(kind: Any, text: str, reason: str) -> None:
    book = Skillbook()
    old = book.add_skill("a", "Check the units.").content
    known = book.skills()[0].id if kind == "UPDATE" else None
    result = book.apply_update(UpdateBatch("", [UpdateOperation(kind, section="a", content=text, skill_id=known)]))
    assert [reason in skipped.reason for skipped in result.skipped] == [True]
    assert [skill.content for skill in book.skills()] == [old]


@pytest.mark.parametrize(
    "text",
    [
        "Répondez en français\u00a0!",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 is Persian.",
        "Greet farmers with \U0001f469\u200d\U0001f33e and hearts with \u2764\ufe0f.",
        "One line.\r\nAnother\tcolumn.",
        "\u3000\u6771\u4eac\u90fd",
    ],
)
def test_texts_of_all_scripts_are_learned(text: str) -> None:
    book = Skillbook()
    book.apply_update(UpdateBatch("", [UpdateOperation("ADD", section="a", content=text)]))
    assert len(book.skills()) == 1
