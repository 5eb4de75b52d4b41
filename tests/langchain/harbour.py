"""A world with a rule that only a failure shows: where there is no tide table, ask the harbour master.

The scripted server plays the agent and the roles. Its agent knows the rule only if it is shown it as a skill.
"""

from __future__ import annotations

import re
from typing import Any

from langchain_core.tools import tool

from ace import Sample
from tests.support.scripted_server import Answer, ScriptedRequest

RULE = "Ask the harbour master where there is no tide table."
SAMPLE = Sample("When is high water in Bremen?", ground_truth="nine")
_SKILL = re.compile(rf"\[([\w-]+)\] {re.escape(RULE)}")
_HOURS = {"Bremen": "nine", "Husum": "ten"}


@tool
def tide_table(port: str) -> str:
    """Look up high water in the tide table of a port."""
    raise LookupError(f"there is no tide table of {port}; the harbour master knows")


@tool
def harbour_master(port: str) -> str:
    """Ask the harbour master of a port for high water."""
    return f"High water in {port} is at {_HOURS[port]}."


TOOLS = [tide_table, harbour_master]


def script(request: ScriptedRequest) -> Answer | dict[str, Any]:
    if request.role == "reflector":
        return _reflection(request.text)
    if request.role == "skill_manager":
        wanted = RULE in request.text and _SKILL.search(request.text) is None
        operation = {"type": "ADD", "section": "tides", "content": RULE}
        return {"reasoning": "", "operations": [operation] if wanted else []}
    return _agent(request)


def _agent(request: ScriptedRequest) -> Answer:
    told = [str(message["content"]) for message in request.messages if message["role"] == "tool"]
    skill = _SKILL.search(request.text)
    if told:
        cited = f"By [{skill[1]}]: " if skill else ""
        return Answer(f"{cited}{told[-1]}")
    port = "Bremen" if "Bremen" in request.text else "Husum"
    return Answer({"port": port}, tool="harbour_master" if skill else "tide_table")


def _reflection(prompt: str) -> dict[str, Any]:
    failed = "LookupError" in prompt
    cited = [] if failed else list(dict.fromkeys(re.findall(r"\[(tides-\d+)\]", prompt)))
    return {
        "reasoning": "Looked at the tools.",
        "error_identification": "The tide table was missing." if failed else "",
        "root_cause_analysis": "A port without a table." if failed else "It asked the right one.",
        "correct_approach": RULE,
        "key_insight": RULE,
        "extracted_learnings": [{"learning": RULE}] if failed else [],
        "skill_tags": [{"id": skill_id, "tag": "helpful"} for skill_id in cited],
    }
