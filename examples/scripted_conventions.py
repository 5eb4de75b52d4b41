"""The script of a model that plays the three roles for `house_conventions`.

As the agent, it follows a convention only if the skill for it is in the prompt. As the reflector, it infers a
convention from a wrong answer and the correct one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

UP = "Round every price up to whole euros."
CENTIMETRES = "Give every length in centimetres."

PARCEL = re.compile(r"made of (\w+)\?")
PRICE = re.compile(r"for an item of ([\d.]+) euros\?")
LENGTH = re.compile(r"write the length ([\d.]+) metres")
SKILL = re.compile(r"\[([\w-]+)\] (Send \w+ by \w+\.|Round every price[\w ]+\.|Give every length[\w ]+\.)")
LEARNING = re.compile(r'"learning": "([^"]+)"')
JUDGEMENT = re.compile(r"(Correct|Incorrect): the answer .*?'([^']+)'\.")


def script(role: str, prompt: str) -> Mapping[str, Any]:
    roles = {"agent": agent, "reflector": reflector, "skill_manager": skill_manager}
    return roles[role](prompt)


def agent(prompt: str) -> Mapping[str, Any]:
    skills = {content: skill_id for skill_id, content in SKILL.findall(prompt)}
    kind, value = task_of(prompt)
    if kind == "parcel":
        found = next((content for content in skills if content.startswith(f"Send {value} ")), "")
        return answered(found.rstrip(".").split()[-1] if found else "post", skills.get(found))
    if kind == "price":
        return answered(str(math.ceil(Decimal(value))) if UP in skills else value, skills.get(UP))
    centimetres = f"{int(Decimal(value) * 100)} cm"
    return answered(centimetres if CENTIMETRES in skills else f"{value} m", skills.get(CENTIMETRES))


def answered(answer: str, skill_id: str | None) -> Mapping[str, Any]:
    reasoning = "I do not know a convention for this." if skill_id is None else f"According to [{skill_id}]."
    return {"reasoning": reasoning, "final_answer": answer}


def reflector(prompt: str) -> Mapping[str, Any]:
    kind, value = task_of(prompt)
    verdict, right = JUDGEMENT.findall(prompt)[-1]
    learning = {"parcel": f"Send {value} by {right}.", "price": UP, "length": CENTIMETRES}[kind]
    is_wrong = verdict == "Incorrect"
    return {
        "reasoning": f"The answer was {verdict.lower()}.",
        "error_identification": "The agent did not know a convention of the company." if is_wrong else "",
        "root_cause_analysis": "There was no skill for it." if is_wrong else "The answer was correct.",
        "correct_approach": learning,
        "key_insight": learning,
        "extracted_learnings": [{"learning": learning}] if is_wrong else [],
        "skill_tags": [],
    }


def skill_manager(prompt: str) -> Mapping[str, Any]:
    known = {content for _, content in SKILL.findall(prompt)}
    new = [learning for learning in LEARNING.findall(prompt) if learning not in known]
    operations = [{"type": "ADD", "section": "conventions", "content": learning} for learning in new]
    return {"reasoning": "Add the new learnings.", "operations": operations}


def task_of(prompt: str) -> tuple[str, str]:
    """Return the kind of the last task in a prompt, and its value."""
    found = [
        (match.start(), kind, match[1])
        for kind, pattern in (("parcel", PARCEL), ("price", PRICE), ("length", LENGTH))
        for match in pattern.finditer(prompt)
    ]
    _, kind, value = max(found)
    return kind, value
