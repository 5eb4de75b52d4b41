"""What the steps declare, and what they do with the context alone."""

from __future__ import annotations

from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.environments import Sample, SimpleEnvironment
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.pipeline import Pipeline, StepProtocol
from ace.skill import InsightSource
from ace.skillbook import Skillbook
from ace.steps import (
    AgentStep,
    ApplyStep,
    CheckpointStep,
    DeduplicateStep,
    EvaluateStep,
    ExportSkillbookMarkdownStep,
    LoadTracesStep,
    ObservabilityStep,
    PersistStep,
    ReflectStep,
    TagStep,
    UpdateStep,
    learning_tail,
)
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.role_inputs import REFLECTION

BOOK = Skillbook()
ANY: Any = object()
TABLE: list[tuple[Any, str, str]] = [
    (AgentStep(ANY), "sample skillbook", "agent_output"),
    (EvaluateStep(), "sample agent_output", "trace"),
    (ReflectStep(ANY), "trace skillbook", "reflection"),
    (TagStep(BOOK), "reflection", ""),
    (UpdateStep(ANY), "reflection skillbook", "skill_manager_output"),
    (ApplyStep(BOOK), "skill_manager_output", ""),
    (DeduplicateStep(ANY, BOOK), "global_sample_index", ""),
    (CheckpointStep("c", BOOK), "global_sample_index", ""),
    (ObservabilityStep(), "skillbook", ""),
    (LoadTracesStep(), "sample", "trace"),
    (PersistStep("CLAUDE.md", BOOK), "skillbook", ""),
    (ExportSkillbookMarkdownStep("s.md", BOOK), "skillbook", ""),
]


@pytest.mark.parametrize(("step", "requires", "provides"), TABLE, ids=[type(row[0]).__name__ for row in TABLE])
def test_the_table_of_the_design(step: Any, requires: str, provides: str) -> None:
    assert isinstance(step, StepProtocol)
    assert (set(step.requires), set(step.provides)) == (set(requires.split()), set(provides.split()))
    writes = hasattr(step, "skillbook")
    assert (getattr(step, "lane", None) == "skillbook") is (writes or isinstance(step, UpdateStep))
    assert getattr(step, "lane_key", None) is (BOOK if writes else None)
    assert getattr(step, "async_boundary", False) is isinstance(step, ReflectStep)


def test_the_tail() -> None:
    names = [type(step).__name__ for step in learning_tail(ANY, ANY, BOOK)]
    assert names == ["ReflectStep", "TagStep", "UpdateStep", "ApplyStep"]
    steps = learning_tail(
        ANY, ANY, BOOK, dedup_manager=ANY, dedup_interval=3, checkpoint_dir="c", checkpoint_interval=4
    )
    assert [type(step).__name__ for step in steps[4:]] == ["DeduplicateStep", "CheckpointStep"]
    assert [getattr(step, "interval", None) for step in steps[4:]] == [3, 4]
    assert ReflectStep.max_workers == 3
    assert Pipeline[ACEStepContext](steps).requires == {"trace", "skillbook", "global_sample_index"}


def test_the_trace_of_a_live_run() -> None:
    sample = Sample("2+2?", "maths", ground_truth="4")
    output = AgentOutput(reasoning="r", final_answer="It is 4.", skill_ids=["a-00001"])
    ctx = ACEStepContext(sample=sample, agent_output=output)
    expected = {
        "question": "2+2?",
        "context": "maths",
        "ground_truth": "4",
        "reasoning": "r",
        "answer": "It is 4.",
        "skill_ids": ["a-00001"],
    }
    assert EvaluateStep()(ctx).trace == expected
    judged = EvaluateStep(SimpleEnvironment())(ctx).trace
    assert isinstance(judged, dict)
    check = {"kind": "contains", "value": "4"}
    assert judged == {**expected, "feedback": judged["feedback"], "metrics": {"correct": 1.0}, "check": check}
    assert "Correct" in judged["feedback"]


class KeepsArguments:
    """A reflector and a skill manager that note how they were called."""

    def __init__(self, *operations: UpdateOperation) -> None:
        self.calls: list[dict[str, Any]] = []
        self.operations = operations

    def reflect(self, **kwargs: Any) -> ReflectorOutput:
        self.calls.append(kwargs)
        return ReflectorOutput(**REFLECTION)  # type: ignore[arg-type]  # texts only

    def update_skills(self, reflection: Any, skillbook: Any, **kwargs: Any) -> SkillManagerOutput:
        self.calls.append(kwargs)
        return SkillManagerOutput(update=UpdateBatch("why", self.operations))


def test_the_reflector_gets_what_the_trace_tells_and_the_trace_itself() -> None:
    view = SkillbookView(BOOK)
    reflector: Any = KeepsArguments()
    trace = {"task": "2+2?", "final_answer": 4, "thoughts": "t", "feedback": "f", "expected": "4", "skill_ids": ["x"]}
    ctx = ReflectStep(reflector)(ACEStepContext(trace=trace, skillbook=view))
    assert ctx.reflection is not None
    [call] = reflector.calls
    assert (call["question"], call["ground_truth"], call["feedback"]) == ("2+2?", "4", "f")
    assert call["agent_output"] == AgentOutput(reasoning="t", final_answer="4", skill_ids=["x"])
    assert call["trace"] is trace
    assert call["skillbook"] is view
    ReflectStep(reflector)(ACEStepContext(trace="just text", skillbook=view))
    assert reflector.calls[1]["question"] == ""
    assert reflector.calls[1]["agent_output"].final_answer == ""
    assert "just text" in reflector.calls[1]["agent_output"].reasoning
    assert reflector.calls[1]["trace"] == "just text"


def test_operations_are_told_where_they_come_from() -> None:
    given = InsightSource("already", "known")
    manager: Any = KeepsArguments(
        UpdateOperation("ADD", section="s", content="Check the units first."),
        UpdateOperation("UPDATE", skill_id="s-00001", content="Sort before you search."),
        UpdateOperation("ADD", section="s", content="c", insight_source=given),
        UpdateOperation("REMOVE", skill_id="s-00001"),
    )
    learnings = [{"learning": "Always sort, then search."}, {"learning": "Units must be checked."}]
    reflection = ReflectorOutput(**REFLECTION, extracted_learnings=learnings)  # type: ignore[arg-type]  # read by pydantic
    ctx = UpdateStep(manager)(
        ACEStepContext(
            sample=Sample("q"),
            skillbook=SkillbookView(BOOK),
            reflection=reflection,
            epoch=2,
            total_epochs=3,
            step_index=4,
            metadata={"trace_id": "t", "integration": "i"},  # type: ignore[arg-type]  # a dict is taken
        )
    )
    assert manager.calls == [{"question_context": "q", "progress": "epoch 2 of 3, sample 4"}]
    assert ctx.skill_manager_output is not None
    sources = [operation.insight_source for operation in ctx.skill_manager_output.operations]
    assert sources[0] == InsightSource("t", "q", 2, 4, "i", "", "Units must be checked.")
    assert sources[1] is not None and sources[1].learning_text == "Always sort, then search."
    assert sources[2:] == [given, None]
    assert ctx.skill_manager_output.reasoning == "why"


def test_apply_only_writes() -> None:
    book = Skillbook()
    ctx = ACEStepContext(skill_manager_output=UpdateBatch("", [UpdateOperation("ADD", section="s", content="c")]))
    assert ApplyStep(book)(ctx) is ctx
    assert book.skills()[0].sources == ()


@pytest.mark.parametrize("step", [row[0] for row in TABLE[:6]], ids=lambda step: type(step).__name__)
def test_a_field_that_is_none_is_told_by_name(step: Any) -> None:
    with pytest.raises(ValueError, match=rf"{type(step).__name__} needs the context field '\w+', which is None"):
        step(ACEStepContext())
