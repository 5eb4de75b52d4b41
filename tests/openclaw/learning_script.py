"""What the learning model of these tests answers: it knows three signs, and adds what the book lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.support.scripted_server import ScriptedRequest

LESSONS = {
    "ZeroDivisionError": "Guard a division against an empty list.",
    "In one sentence, please": "Answer in one sentence.",
    "scripted error": "Try again when the provider refuses.",
}
_LEARNING = re.compile(r'"learning": "([^"]+)"')


def learn(request: ScriptedRequest) -> Mapping[str, Any]:
    if request.role == "reflector":
        lessons = [lesson for sign, lesson in LESSONS.items() if sign in request.text]
        words = " ".join(lessons)
        return {
            "reasoning": "Looked for signs.",
            "error_identification": words,
            "root_cause_analysis": words,
            "correct_approach": words,
            "key_insight": words,
            "extracted_learnings": [{"learning": lesson} for lesson in lessons],
        }
    known = [lesson for lesson in _LEARNING.findall(request.text) if f"] {lesson}" not in request.text]
    operations = [{"type": "ADD", "section": "claws", "content": lesson} for lesson in dict.fromkeys(known)]
    return {"reasoning": "", "operations": operations}
