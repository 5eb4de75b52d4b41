"""A scripted model that learns: it finds lessons in traces and adds those that the book lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.scripted_server import Answer, HttpError, Reply, Script, ScriptedRequest

LESSON = re.compile(r"LESSON (\w+)")


def learning_script(delay: float = 0.0) -> Script:
    """A script for all roles.

    The Reflector finds each `LESSON word` of the trace, and tags the cited skills whose word it finds. A trace with the
    word UNUSABLE gets no usable answer, one with REFUSED an HTTP error, one with GHOST the judgement of a skill that
    there is not. The SkillManager adds one skill per lesson
    that is not in the book yet. The Agent answers with the skill whose word stands in the question, if the prompt
    has it. Asked about similar skills, it leaves them as they are.
    """

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if "wrong-key" in request.headers.get("authorization", ""):
            return HttpError(401, "invalid key")
        if request.model == "unknown":
            return HttpError(404, "no such model")
        if request.role == "reflector":
            return _reflection(request, delay)
        if request.role == "skill_manager":
            return Answer(_update(request.text), delay)
        if request.role == "skill_manager_together":
            return Answer(updates_together(request.text, _update), delay)
        if request.role == "agent":
            return Answer(_answer(request.text), delay)
        if "consolidation_operations" in request.text:
            return {"consolidation_operations": []}
        return "ready"

    return script


def updates_together(prompt: str, update: Callable[[str], Mapping[str, Any]]) -> dict[str, Any]:
    """Answer a request about several reflections like requests about each of them with the same skillbook.

    Args:
        prompt: The whole prompt.
        update: Answers a prompt with one reflection.
    """
    parts = parts_of(prompt)
    return {"updates": [{"reflection": number, **update(part)} for number, part in parts.items()]}


def parts_of(prompt: str) -> dict[int, str]:
    """Return the prompt as it would be with each of its reflections alone, by their numbers."""
    head, *parts = re.split(r"^## Reflection (\d+)$", prompt, flags=re.MULTILINE)
    return {int(number): head + text for number, text in zip(parts[::2], parts[1::2], strict=True)}


def _reflection(request: ScriptedRequest, delay: float) -> Reply:
    prompt = request.record
    if "REFUSED" in prompt:
        return HttpError(400, "refused")
    if "UNUSABLE" in prompt:
        return Answer("no JSON at all")
    words = list(dict.fromkeys(LESSON.findall(prompt)))
    reflection = {
        "reasoning": "Looked for lessons.",
        "error_identification": "A lesson was not known." if words else "",
        "root_cause_analysis": "",
        "correct_approach": "",
        "key_insight": words[0] if words else "Nothing to learn.",
        "extracted_learnings": [{"learning": f"Remember LESSON {word}."} for word in words],
        "skill_tags": [
            {"id": skill_id, "tag": "helpful"}
            for skill_id, word in re.findall(r"\[([\w-]+)\] Remember LESSON (\w+)\.", request.text)
            if word in words and skill_id in request.cited
        ]
        + [{"id": "ghost-00001", "tag": "helpful"}] * ("GHOST" in prompt),
    }
    return Answer(reflection, delay)


def _update(prompt: str) -> dict[str, Any]:
    wanted = list(dict.fromkeys(re.findall(r'"learning": "(Remember LESSON \w+\.)"', prompt)))
    new = [lesson for lesson in wanted if f"] {lesson}" not in prompt]
    return {"reasoning": "", "operations": [{"type": "ADD", "section": "lessons", "content": lesson} for lesson in new]}


def _answer(prompt: str) -> dict[str, Any]:
    known = re.findall(r"\[([\w-]+)\] Remember LESSON (\w+)\.", prompt)
    asked = prompt.rpartition("What about")[2]
    for skill_id, word in known:
        if word in asked:
            return {"reasoning": f"[{skill_id}] says so.", "final_answer": f"LESSON {word}"}
    return {"reasoning": "I know nothing.", "final_answer": "unknown"}
