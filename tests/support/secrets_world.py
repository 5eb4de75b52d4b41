"""A world in which an agent can only know what a skill has taught it.

Each sample asks for the secret of a thing; the right answer is `value-of-<thing>`. The script plays all
three roles and looks at nothing but the request: the agent answers right if and only if the skill is in
its prompt, the reflector learns the secret if and only if it sees the right answer, and the manager
adds the skill if and only if the book in its prompt lacks it.
"""

from __future__ import annotations

import re
from typing import Any

from ace.environments import Sample
from tests.support.scripted_server import ScriptedRequest

__all__ = ["answer", "sample_of", "samples", "things_taught"]

_QUESTION = re.compile(r"the secret of (\w+)\?")
_LEARNED = re.compile(r"The secret of (\w+) is (value-of-\w+)\.")
_SKILL = re.compile(r"\[([^\[\]\s]+)\]\s+The secret of (\w+) is (value-of-\w+)\.")


def sample_of(thing: str) -> Sample:
    """Return the sample that asks for the secret of a thing."""
    return Sample(f"What is the secret of {thing}?", ground_truth=f"value-of-{thing}", id=thing)


def samples(count: int) -> list[Sample]:
    """Return so many different samples."""
    return [sample_of(f"thing{number}") for number in range(count)]


def things_taught(text: str) -> list[str]:
    """Return the things whose secrets stand in a text, such as a prompt or a skillbook."""
    return [thing for thing, _ in _LEARNED.findall(text)]


def answer(request: ScriptedRequest) -> dict[str, Any]:
    """The script for `ScriptedServer`."""
    roles = {"agent": _agent, "reflector": _reflector, "skill_manager": _skill_manager}
    return roles[request.role](request.text)


def _agent(prompt: str) -> dict[str, Any]:
    thing = _asked_for(prompt)
    for skill_id, taught, value in _SKILL.findall(prompt):
        if taught == thing:
            return {"reasoning": f"[{skill_id}] tells it.", "final_answer": value}
    return {"reasoning": "No skill tells it.", "final_answer": "I do not know."}


def _reflector(prompt: str) -> dict[str, Any]:
    thing = _asked_for(prompt)
    known = f"value-of-{thing}" in prompt
    learning = f"The secret of {thing} is value-of-{thing}."
    cited = [skill_id for skill_id, taught, _ in _SKILL.findall(prompt) if taught == thing]
    learnings = [{"learning": learning, "atomicity_score": 1.0, "evidence": "the right answer"}]
    return {
        "reasoning": "The right answer is known." if known else "Nothing tells what is right.",
        "error_identification": "" if cited else "The agent did not know.",
        "root_cause_analysis": "A skill was there." if cited else "No skill was there.",
        "correct_approach": learning if known else "",
        "key_insight": learning if known else "",
        "extracted_learnings": learnings if known else [],
        "skill_tags": [{"id": skill_id, "tag": "helpful"} for skill_id in dict.fromkeys(cited)],
    }


def _skill_manager(prompt: str) -> dict[str, Any]:
    in_book = {taught for _, taught, _ in _SKILL.findall(prompt)}
    new = [(thing, value) for thing, value in dict.fromkeys(_LEARNED.findall(prompt)) if thing not in in_book]
    operations = [
        {"type": "ADD", "section": "secrets", "content": f"The secret of {thing} is {value}."} for thing, value in new
    ]
    return {"reasoning": "New secrets." if new else "Nothing new.", "operations": operations}


def _asked_for(prompt: str) -> str:
    """Return the thing of the last question in a prompt; templates put the task last."""
    found = _QUESTION.findall(prompt)
    return found[-1] if found else ""
