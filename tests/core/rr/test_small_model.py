"""A real model of 1.5 billion parameters explores traces with code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ace.outputs import AgentOutput
from ace.protocols.llm import LLMResponse
from ace.providers.local import LocalLLMClient
from ace.rr import ReflectionLimitError, RRConfig, RRStep
from ace.skillbook import Skillbook
from tests.support.local_models import needed_model
from tests.support.reflection_script import TRACE

pytest.importorskip("pydantic_monty")


def step(kind: str, name: str, content: str, place: int, *, is_error: bool = False) -> dict[str, Any]:
    return {"kind": kind, "name": name, "content": content, "is_error": is_error, "place": str(place)}


# Only the steps have the first text. The second one belongs into the correct approach.
TRACES: list[tuple[str, str, dict[str, Any]]] = [
    ("feet", "feet", dict(TRACE)),  # this model submits a usable reflection on it, and the test need not go on
    (
        "local time",
        "UTC",
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
    (
        "quota",
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


class Recording:
    """Passes conversations on, and keeps them."""

    is_small_model = True

    def __init__(self, client: LocalLLMClient) -> None:
        self.client = client
        self.conversations: list[Sequence[Mapping[str, Any]]] = []

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], **settings: Any) -> LLMResponse:
        self.conversations.append(messages)
        return self.client.complete_messages(messages, **settings)


def test_a_small_model_submits_a_usable_reflection_on_one_of_three_traces() -> None:
    client = LocalLLMClient(needed_model("qwen2.5-coder-1.5b"))
    assert client.is_small_model
    outcomes = []
    for decisive, approach, trace in TRACES:
        recording = Recording(client)
        output = AgentOutput(reasoning="", final_answer=trace["answer"])
        try:
            reflection = RRStep(recording, RRConfig(max_iterations=4)).reflect(
                trace["question"], output, Skillbook(), feedback=trace["feedback"], trace=trace
            )
        except ReflectionLimitError as error:
            outcomes.append(str(error))
            continue
        told = reflection.raw["rr_trace"]
        text = reflection.model_dump_json(exclude={"raw"})
        outcomes.append(f"{text}\n{told}")
        # The first prompt does not have what decides, so the model found it in what its code printed.
        assert decisive not in str(recording.conversations[0])
        has_seen = any(decisive in turn["stdout"] for turn in told["iterations"][:-1])
        has_submitted = not told["timed_out"] and told["iterations"][-1]["terminated"]
        if has_seen and has_submitted and decisive in text and approach in reflection.correct_approach:
            return
    pytest.fail("\n".join(outcomes))
