"""Chats in which a person corrects an agent, and a scripted strong model that learns from them.

Each `Lesson` is a rule of the company in the example. The agent answers a question correctly if its prompt holds the
rule of the lesson, so an answer depends on the skills that it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ace.cases import judged_trace, replies_in
from ace.logs.trace import StandardTrace, read_trace
from ace.outputs import Judgement
from ace.redaction import Redactor
from tests.support.scripted_server import Reply, Script, ScriptedRequest

__all__ = [
    "CODE",
    "PAYER",
    "TIDE",
    "Lesson",
    "chat",
    "chats",
    "corrected",
    "correcting_script",
    "judged",
    "judgement",
    "judgements_in",
    "lesson_number",
    "small_judgement",
]


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


def corrected(*texts: str) -> dict[str, Any]:
    """Return a trace whose corrections are already known, so that no model has to recognise them.

    Args:
        texts: For each of them the question, the wrong answer, the correction and the right answer.
    """
    names = ("question", "wrong", "correction", "right")
    fours = (texts[start : start + 4] for start in range(0, len(texts), 4))
    known = [{**dict(zip(names, four, strict=True)), "place": str(place)} for place, four in enumerate(fours)]
    return {"schema": 1, "question": texts[0], "answer": texts[1], "corrections": known}


def judged(trace: object, right: str = "", *, reply: str = "") -> StandardTrace:
    """Read a trace in which a model has named the replies of the person that contain a text as judgements."""
    read = read_trace(trace)
    named = [
        Judgement(message=found.place, quote=found.text, wrong=found.answer, right=right)
        for found in replies_in(read)
        if reply in found.text
    ]
    return judged_trace(read, named, Redactor())


def correcting_script(*lessons: Lesson, broken_by: Mapping[str, str] | None = None) -> Script:
    """A script for all roles.

    The Reflector returns the rule of each lesson whose correction is in its prompt; the SkillManager adds each of
    them. The Agent answers correctly if its prompt holds what the lesson needs, or the worked example; wrongly
    otherwise, and also if its prompt holds a text of `broken_by`, by the question that it spoils.
    """

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "reflector":
            return _reflection([lesson for lesson in lessons if lesson.correction in request.record], request.text)
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


def judgement(prompt: str, lesson: Lesson) -> dict[str, Any]:
    """Return the correction of a lesson as a strong model names it when it reads the prompt."""
    place = re.search(rf"\[([\w.]+)\] message user\n{re.escape(lesson.correction)}", prompt)
    number = place[1] if place else "feedback"
    return {"message": number, "quote": lesson.correction, "wrong": lesson.wrong, "right": lesson.right}


_EXCHANGE = re.compile(
    r"message assistant\n(?P<wrong>[^\n]*)\n+(?:## )?\[(?P<message>[\w.]+)\] message user\n(?P<quote>[^\n]*)\n+"
    r"(?:## )?\[[\w.]+\] message assistant\n(?P<right>[^\n]*)"
)


def judgements_in(prompt: str, said: str) -> list[dict[str, str]]:
    """Return the replies with some words as judgements; what the agent answers next is right."""
    found = [match.groupdict() for match in _EXCHANGE.finditer(prompt)]
    return [exchange for exchange in found if said in exchange["quote"]]


def small_judgement(request: ScriptedRequest, right: Mapping[str, str]) -> dict[str, str] | None:
    """Return the answer of a small model to a question about a reply of a person; None if it is asked anything else.

    Args:
        request: The request.
        right: The right answers, by the replies that say that an answer was wrong.
    """
    if "What does the reply do?" in request.text:
        reply = request.text.rpartition("\nThe person replied: ")[2].splitlines()[0]
        return {"reply": "corrects the answer" if reply in right else "accepts the answer"}
    if "Copy the right answer" not in request.text:
        return None
    return {"right": right[request.text.rpartition("\nReply: ")[2].splitlines()[0]]}


def _reflection(found: Sequence[Lesson], prompt: str) -> dict[str, Any]:
    return {
        "reasoning": "Looked for corrections.",
        "correct_approach": "",
        "key_insight": found[0].rule if found else "",
        "extracted_learnings": [{"learning": lesson.rule} for lesson in found],
        "skill_tags": [],
        "judgements": [judgement(prompt, lesson) for lesson in found],
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
