"""The model that examples reach if they name one of OpenAI: it knows no rule of the company until it is corrected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["carrier_model"]

RULE = "Send glass by courier."


def carrier_model(role: str, prompt: str) -> Mapping[str, Any]:
    """Answer as a role. An agent names the right carrier if the rule is in its prompt."""
    if role == "agent":
        return {"reasoning": "", "final_answer": "courier" if RULE in prompt else "post"}
    if role == "skill_manager":
        return {"reasoning": "It is new.", "operations": [{"type": "ADD", "section": "dispatch", "content": RULE}]}
    return {
        "reasoning": "The person corrected the answer.",
        "error_identification": "It chose the post.",
        "root_cause_analysis": "It did not know the rule.",
        "correct_approach": RULE,
        "key_insight": RULE,
        "extracted_learnings": [{"learning": RULE}],
        "skill_tags": [],
    }
