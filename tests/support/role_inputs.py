"""What the roles are asked with in tests."""

from __future__ import annotations

from typing import Any

from ace.outputs import AgentOutput
from ace.skillbook import Skillbook

REFLECTION = {
    "reasoning": "r",
    "error_identification": "",
    "root_cause_analysis": "c",
    "correct_approach": "a",
    "key_insight": "k",
}
ANSWER = AgentOutput(reasoning="by [maths-00001]", final_answer="4", skill_ids=["maths-00001"])


def book_with(*contents: str) -> Skillbook:
    book = Skillbook()
    for content in contents:
        book.add_skill("maths", content)
    return book


def update(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"reasoning": "", "operations": list(operations)}
