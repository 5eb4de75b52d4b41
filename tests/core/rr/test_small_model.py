"""A real model of 1.5 billion parameters explores traces with code."""

from __future__ import annotations

from typing import Any

import pytest

from ace.outputs import AgentOutput
from ace.providers.local import LocalLLMClient
from ace.rr import ReflectionLimitError, RRConfig, RRStep
from ace.skillbook import Skillbook
from tests.support.local_models import needed_model
from tests.support.reflection_script import TRACE

pytest.importorskip("pydantic_monty")


def step(kind: str, name: str, content: str, place: int, *, is_error: bool = False) -> dict[str, Any]:
    return {"kind": kind, "name": name, "content": content, "is_error": is_error, "place": str(place)}


TRACES: list[tuple[str, dict[str, Any]]] = [
    (
        "TZ",
        {
            "question": "Run the tests of the project.",
            "answer": "The tests fail.",
            "feedback": "Wrong: the tests pass with TZ=UTC.",
            "steps": [
                step("call", "bash", "make test", 1),
                step(
                    "result", "bash", "FAILED: set TZ=UTC before the tests, they compare local times", 2, is_error=True
                ),
                step("thought", "", "I give up.", 3),
            ],
        },
    ),
    ("feet", dict(TRACE)),
    (
        "quota",
        {
            "question": "Upload the archive.",
            "answer": "done",
            "feedback": "Wrong: part 41 is missing.",
            "steps": [
                step("result", "upload", f"part {part} {'refused: quota used up' if part == 41 else 'stored'}", part)
                for part in range(60)
            ],
        },
    ),
]


@pytest.mark.thorough
def test_a_small_model_submits_a_usable_reflection_on_one_of_three_traces() -> None:
    client = LocalLLMClient(needed_model("qwen2.5-coder-1.5b"))
    reflector = RRStep(client, RRConfig(max_iterations=2))
    outcomes = []
    for decisive, trace in TRACES:
        output = AgentOutput(reasoning="", final_answer=trace["answer"])
        try:
            reflection = reflector.reflect(
                trace["question"], output, Skillbook(), feedback=trace["feedback"], trace=trace
            )
        except ReflectionLimitError as error:
            outcomes.append(str(error))
            continue
        text = reflection.model_dump_json(exclude={"raw"})
        outcomes.append(text)
        if reflection.key_insight and reflection.correct_approach and decisive in text:
            return
    pytest.fail("\n".join(outcomes))
