"""A scripted model that explores a trace with code: what it answers depends on what it is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted_server import Reply, ScriptedRequest

Turn = str | Reply | Callable[[str], "str | Reply"]
"""An answer, or a function that returns it for the last message of the conversation."""

SUB_QUESTION = "You help to analyse the record"

REFLECTION: Mapping[str, Any] = {
    "reasoning": "The agent converted feet to metres twice.",
    "error_identification": "It converted twice.",
    "root_cause_analysis": "It did not write down units.",
    "correct_approach": "Write the unit next to each number.",
    "key_insight": "Units prevent double conversion.",
    "extracted_learnings": [
        {"learning": "Write the unit next to each number.", "atomicity_score": 0.9, "evidence": "place 2"}
    ],
}

TRACE: Mapping[str, Any] = {
    "question": "How tall is the tower in metres?",
    "answer": "9 m",
    "feedback": "Wrong: it is 30 m.",
    "success": False,
    "steps": [
        {"kind": "call", "name": "lookup", "content": "tower height", "is_error": False, "place": "1"},
        {"kind": "result", "name": "lookup", "content": "98 feet, which is 30 m", "is_error": False, "place": "2"},
        {"kind": "thought", "name": "", "content": "30 feet are 9 m", "is_error": False, "place": "3"},
    ],
}


def python(code: str) -> str:
    """Return code as a model sends it."""
    return f"I look at the record.\n\n```python\n{code}\n```\n"


def submit(reflection: Mapping[str, Any] = REFLECTION) -> str:
    """Return the answer that submits a reflection."""
    return python(f"FINAL({dict(reflection)!r})")


LOOK = python("print(trace.summary())")


@dataclass
class Explorer:
    """A script for `ScriptedServer`: turn by turn, and what it answers to sub-questions and other roles."""

    turns: Sequence[Turn] = (LOOK, submit())
    sub_answer: Callable[[ScriptedRequest], str | Reply] = field(default=lambda request: "Nothing stands out.")
    skills: Sequence[Mapping[str, Any]] = (
        {"type": "ADD", "section": "units", "content": "Write the unit next to each number."},
    )

    def __call__(self, request: ScriptedRequest) -> Any:
        if request.role in ("agent", "skill_manager"):
            if request.role == "agent":
                return {"reasoning": "I guess.", "final_answer": "9 m"}
            return {"reasoning": "One strategy.", "operations": list(self.skills)}
        last = str(request.messages[-1]["content"])
        found = re.match(r"\[Iteration (\d+)/(\d+)\]", last)
        if found is None:
            return self.sub_answer(request)
        turn = self.turns[min(int(found[1]), len(self.turns)) - 1]
        return turn if not callable(turn) else turn(last)


def is_turn(request: ScriptedRequest) -> bool:
    """Whether a request is a turn of a reflection."""
    return bool(request.messages) and "[Iteration " in json.dumps(request.messages[-1])


def conversation_length(request: ScriptedRequest) -> int:
    """Return the number of characters that a request sends."""
    return sum(len(str(message["content"])) for message in request.messages)
