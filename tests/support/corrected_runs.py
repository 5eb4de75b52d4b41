"""Recorded chats of a shop in which a customer's agent is corrected, and the model that goes with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.scripted_server import ScriptedRequest

__all__ = ["CORRECTION", "RULE", "chat", "shop", "write_runs"]

CORRECTION = "That is wrong, it is 14 days."
RULE = "A return is possible for 14 days."
_GOODS = ("kettle", "lamp", "chair", "table", "mirror", "carpet", "shelf", "clock", "stool", "vase")


def chat(thing: str, *, corrected: bool = True, day: int | None = None) -> dict[str, Any]:
    """A chat about one thing; without a correction, no one says whether the answer is right."""
    said = [("user", f"How many days do I have to return the {thing}?"), ("assistant", "You have 30 days.")]
    if corrected:
        said += [("user", CORRECTION), ("assistant", "You have 14 days.")]
    else:
        said += [("user", "Thanks!"), ("assistant", "You are welcome.")]
    started = {} if day is None else {"started": f"2026-03-{day:02}T10:00:00Z"}
    return {**started, "messages": [{"role": role, "content": text} for role, text in said]}


def write_runs(folder: Path, count: int, **options: Any) -> Path:
    """Write chats about different things to files whose names have the order of the chats."""
    folder.mkdir(exist_ok=True)
    for number, thing in enumerate(_GOODS[:count], 1):
        (folder / f"{number:02}.json").write_text(json.dumps(chat(thing, **options)), encoding="utf-8")
    return folder


def shop(request: ScriptedRequest) -> Mapping[str, Any] | str:
    """A model that answers right only if the prompt has the rule, and that learns the rule from a correction."""
    if request.role == "agent":
        knows = RULE in request.text or CORRECTION in request.text
        return {"reasoning": "", "final_answer": "You have 14 days." if knows else "You have 30 days."}
    if request.role == "judgements":
        return {"judgements": _judgements(request.text)}
    if request.role == "reflector":
        found = "it is 14 days" in request.text
        return {
            "reasoning": "Read it.",
            "error_identification": "30 days" if found else "",
            "root_cause_analysis": "",
            "correct_approach": "",
            "key_insight": RULE if found else "",
            "extracted_learnings": [{"learning": RULE}] if found else [],
            "skill_tags": [],
            "judgements": _judgements(request.text),
        }
    if request.role == "skill_manager":
        known = re.search(rf"\[[\w-]+\] {re.escape(RULE)}", request.text)
        add = {"type": "ADD", "section": "returns", "content": RULE}
        return {"reasoning": "", "operations": [] if known else [add]}
    return "ready"


def _judgements(prompt: str) -> list[dict[str, str]]:
    """The correction in a prompt, as a model names it."""
    quoted = {"quote": CORRECTION, "wrong": "You have 30 days.", "right": "14 days"}
    places = re.findall(rf"\[([\w.]+)\] [a-z ]+\n{re.escape(CORRECTION)}", prompt)
    return [{"message": place, **quoted} for place in places]
