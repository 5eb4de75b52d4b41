"""What a reflection on several traces leads to: sources, and a guard that knows the answers of all traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.outputs import ReflectorOutput, SkillManagerOutput
from ace.skill import InsightSource
from ace.skillbook import Skillbook
from ace.skillbook.applying import check_operation
from ace.skillbook.errors import EventRefusedError
from ace.steps import ApplyStep, UpdateStep
from ace.updates import UpdateBatch, UpdateOperation

BATCH = {"items": {f"run-{number}": {"question": f"Question {number}", "ground_truth": "x"} for number in range(4)}}


class Manager:
    """A skill manager that returns what it was made with."""

    def __init__(self, *operations: UpdateOperation) -> None:
        self.operations = operations

    def update_skills(self, **kwargs: Any) -> SkillManagerOutput:
        return SkillManagerOutput(update=UpdateBatch("", self.operations))


def learned(book: Skillbook, operation: UpdateOperation, *learnings: dict[str, Any], trace: object = BATCH) -> None:
    reflection = ReflectorOutput.model_validate(
        {
            "reasoning": "",
            "error_identification": "It failed.",
            "correct_approach": "",
            "key_insight": "",
            "extracted_learnings": list(learnings),
        }
    )
    ctx = ACEStepContext(skillbook=SkillbookView(book), trace=trace, reflection=reflection)
    ctx = ctx.replace(metadata={"trace_id": "the group"})
    ApplyStep(book)(UpdateStep(Manager(operation))(ctx))


def source_ids(book: Skillbook) -> list[str]:
    (skill,) = book.skills()
    return [source.trace_id for source in skill.sources]


NODE = {"learning": "Avoid node seven.", "trace_ids": ["run-1", "run-3"]}
DISK = {"learning": "Check the disk.", "trace_ids": ["run-0"]}


def test_a_skill_has_the_traces_of_its_learning_as_sources() -> None:
    book = Skillbook()
    learned(book, UpdateOperation("ADD", "nodes", "Avoid node seven."), DISK, NODE)
    assert source_ids(book) == ["run-1", "run-3"]
    assert book.skills()[0].sources[1].learning_text == "Avoid node seven."


def test_only_traces_of_the_batch_can_be_sources() -> None:
    book = Skillbook()
    learned(book, UpdateOperation("ADD", "nodes", "Avoid node seven."), {**NODE, "trace_ids": ["run-3", "run-77"]})
    assert source_ids(book) == ["run-3"]
    single = Skillbook()
    trace = {"question": "One trace", "ground_truth": "x"}
    learned(single, UpdateOperation("ADD", "nodes", "Avoid node seven."), NODE, trace=trace)
    assert source_ids(single) == ["the group"]


@pytest.mark.parametrize(("judged", "status"), [("run-1", "active"), ("run-0", "pending")])
def test_a_skill_is_pending_if_no_one_judged_the_traces_of_its_learning(judged: str, status: str) -> None:
    items = {f"run-{number}": {"question": f"Question {number}"} for number in range(4)}
    items[judged]["ground_truth"] = "x"
    book = Skillbook()
    learned(book, UpdateOperation("ADD", "nodes", "Avoid node seven."), DISK, NODE, trace={"items": items})
    assert [skill.status for skill in book.skills(include_invalid=True)] == [status]


def test_a_skill_without_a_learning_has_all_traces_as_sources() -> None:
    book = Skillbook()
    learned(book, UpdateOperation("ADD", "nodes", "Avoid node seven."))
    assert source_ids(book) == ["run-0", "run-1", "run-2", "run-3"]


def test_an_update_adds_the_traces_to_the_sources_and_a_store_keeps_them(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        skill = book.add_skill("nodes", "Avoid node six.", insight_source=InsightSource("older"))
        learned(book, UpdateOperation("UPDATE", skill_id=skill.id, content="Avoid node seven."), NODE)
        assert source_ids(book) == ["older", "run-1", "run-3"]
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert source_ids(book) == ["older", "run-1", "run-3"]
        (_, change) = book.blame(skill.id)
        assert book.as_of(change.version).skills()[0].sources == book.skills()[0].sources


def test_an_operation_keeps_its_traces_as_json() -> None:
    operation = UpdateOperation("ADD", "a", "b", metadata={"helpful": 2, "evidence_traces": ["x", "y", "x"]})
    read = UpdateOperation.from_dict(operation.to_dict())
    assert (read.counters, read.evidence_traces) == ({"helpful": 2}, ("x", "y"))


@pytest.mark.parametrize("traces", ["run-1", [1], {"a": 1}])
def test_traces_that_are_not_a_list_of_strings_are_refused(traces: object) -> None:
    operation = UpdateOperation("ADD", "a", "b", metadata={"evidence_traces": traces})
    with pytest.raises(EventRefusedError, match=r"metadata\.evidence_traces must be a list of strings"):
        check_operation(operation)


def test_the_right_answer_of_any_trace_is_kept_out_of_the_skillbook() -> None:
    answer = "the lock of order forty seven was never released"
    batch = {"items": {**BATCH["items"], "run-9": {"question": "Why?", "ground_truth": answer}}}
    book = Skillbook()
    learned(book, UpdateOperation("ADD", "locks", f"Say that {answer}."), trace=batch)
    assert book.skills() == []
    learned(book, UpdateOperation("ADD", "locks", f"Say that {answer}."))
    assert len(book.skills()) == 1
