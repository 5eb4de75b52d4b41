"""Chats in which a person corrects an agent, and a scripted strong model that learns from them.

Each `Lesson` is a rule of the company in the example. The agent answers a question correctly if its prompt holds the
rule of the lesson, so an answer depends on the skills that it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.scripted_server import Reply, Script, ScriptedRequest

__all__ = ["CODE", "PAYER", "TIDE", "Lesson", "chat", "chats", "correcting_script", "lesson_number"]


@dataclass(frozen=True)
class Lesson:
    """What one correction teaches."""

    question: str
    wrong: str
    correction: str
    right: str
    rule: str
    """What the reflector makes of it."""
    needs: str
    """What the prompt has to hold so that the agent answers correctly."""


TIDE = Lesson(
    "When is high water in Emden?",
    "2:30 pm",
    "No, our tables are written as 14h30.",
    "14h30",
    "Write times of the tables as 14h30.",
    "as 14h30",
)
PAYER = Lesson(
    "Who pays a bill over 700 euros?",
    "Anna",
    "No, bills above 500 euros are paid by Okafor.",
    "Okafor",
    "Bills above 500 euros are paid by Okafor.",
    "by Okafor",
)
CODE = Lesson(
    "Which label gets a broken crate?",
    "broken",
    "Refused. A broken crate gets the label K7-RED.",
    "K7-RED",
    "Give a broken crate the label K7-RED.",
    "label K7-RED",
)


def lesson_number(number: int) -> Lesson:
    """Return one of any number of lessons that share few words."""
    return Lesson(
        f"What is the shelf of ware{number}?",
        "unknown",
        f"No, ware{number} has the shelf S-{number}.",
        f"S-{number}",
        f"The shelf of ware{number} is S-{number}.",
        f"ware{number} is S-{number}.",
    )


def chat(*lessons: Lesson) -> list[dict[str, str]]:
    """Return the messages of one conversation with these corrections."""
    said: list[dict[str, str]] = []
    for lesson in lessons:
        said += [
            {"role": "user", "content": lesson.question},
            {"role": "assistant", "content": lesson.wrong},
            {"role": "user", "content": lesson.correction},
            {"role": "assistant", "content": lesson.right},
        ]
    return said


def chats(lessons: Sequence[Lesson]) -> list[list[dict[str, str]]]:
    """Return one conversation for each lesson."""
    return [chat(lesson) for lesson in lessons]


def correcting_script(*lessons: Lesson, broken_by: Mapping[str, str] | None = None) -> Script:
    """A script for all roles.

    The Reflector returns the rule of each lesson whose correction is in its prompt; the SkillManager adds each of
    them. The Agent answers correctly if its prompt holds what the lesson needs, or the worked example; wrongly
    otherwise, and also if its prompt holds a text of `broken_by`, by the question that it spoils.
    """

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "reflector":
            record = re.sub(r"\n# Skills\n.*?\n# Rest of the record\n", "", request.text, flags=re.DOTALL)
            return _reflection([lesson for lesson in lessons if lesson.correction in record])
        if request.role == "skill_manager":
            wanted = dict.fromkeys(re.findall(r'"learning": "(.+?)"', request.text))
            return {
                "reasoning": "",
                "operations": [{"type": "ADD", "section": "house", "content": lesson} for lesson in wanted],
            }
        if request.role == "agent" or "final_answer" in request.text:
            return {"reasoning": "", "final_answer": _answer(request.text, lessons, broken_by or {})}
        return {"consolidation_operations": []}

    return script


def _reflection(found: Sequence[Lesson]) -> dict[str, Any]:
    return {
        "reasoning": "Looked for corrections.",
        "correct_approach": "",
        "key_insight": found[0].rule if found else "",
        "extracted_learnings": [{"learning": lesson.rule} for lesson in found],
        "skill_tags": [],
    }


def _answer(prompt: str, lessons: Sequence[Lesson], broken_by: Mapping[str, str]) -> str:
    asked = prompt.rpartition("# Task")[2]
    for lesson in lessons:
        if lesson.question in asked:
            skills = prompt.rpartition("# Task")[0]
            example = f"Example: {lesson.question} -> {lesson.right}"
            if broken_by.get(lesson.question, "\0") in skills:
                return lesson.wrong
            return lesson.right if lesson.needs in skills or example in skills else lesson.wrong
    return "I do not know."
