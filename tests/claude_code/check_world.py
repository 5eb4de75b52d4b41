"""A world in which Claude Code fails a check, until a skill tells how the check is run.

The script plays all roles and looks at nothing but the request: the agent runs the check the right way if and only if
the rule is in its prompt, the reflector learns the rule if and only if it sees what the failed check printed, and the
skill manager adds it if and only if the book in its prompt lacks it.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.scripted_anthropic_server import Reply, Request, Text, ToolUse

TASK = "Run the check of this project."
RULE = "Run check.py with the option --strict."
CHECK = """\
import sys
if "--strict" not in sys.argv:
    sys.exit("FAILED: this project checks with --strict only")
print("PASSED")
"""
_SKILL = re.compile(rf"\[([\w-]+)\] {re.escape(RULE)}")


def lay_out(project: Path) -> None:
    """Put the check into the folder."""
    (project / "check.py").write_text(CHECK, encoding="utf-8")


def has_rule(request: Request) -> bool:
    return _SKILL.search(request.text) is not None


def is_agent(request: Request) -> bool:
    """Whether Claude Code asks for a user's task, and not for one of our roles or for a title."""
    return "Bash" in request.tools


def play(request: Request) -> Reply:
    """The script for `ScriptedAnthropicServer`."""
    if is_agent(request):
        return _agent(request)
    role = next((tool["input_schema"].get("title") for tool in _tools(request)), None)
    if request.tool_results:
        return [Text("Given.")]
    if role == "ReflectorOutput":
        return [ToolUse("StructuredOutput", _reflection(request.text))]
    if role == "SkillManagerOutput":
        return [ToolUse("StructuredOutput", _update(request.text))]
    return [Text("A title")]


def _tools(request: Request) -> list[dict[str, dict[str, str]]]:
    return [tool for tool in request.body.get("tools") or [] if tool.get("name") == "StructuredOutput"]


def _agent(request: Request) -> Reply:
    known = _SKILL.search(request.text)
    if not request.tool_results:
        command = "python3 check.py --strict" if known else "python3 check.py"
        return [Text("I run it."), ToolUse("Bash", {"command": command, "description": "Run the check"})]
    if "PASSED" in request.tool_results[-1]:
        return [Text(f"The check passed, as [{known[1]}] says." if known else "The check passed.")]
    return [Text("The check failed, and I do not know why.")]


def _reflection(prompt: str) -> dict[str, object]:
    failed = "FAILED: this project checks with --strict only" in prompt
    cited = dict.fromkeys(re.findall(r"as \[([\w-]+)\] says", prompt))
    return {
        "reasoning": "The check was looked at.",
        "error_identification": "The check was run without an option that it needs." if failed else "",
        "root_cause_analysis": "The option was not known." if failed else "The option was known.",
        "correct_approach": RULE if failed else "",
        "key_insight": RULE if failed else "",
        "extracted_learnings": [{"learning": RULE, "atomicity_score": 1.0}] if failed else [],
        "skill_tags": [{"id": skill_id, "tag": "helpful"} for skill_id in cited],
    }


def _update(prompt: str) -> dict[str, object]:
    wanted = f'"learning": "{RULE}"' in prompt and _SKILL.search(prompt) is None
    operations = [{"type": "ADD", "section": "checks", "content": RULE}] if wanted else []
    return {"reasoning": "A new rule." if wanted else "Nothing new.", "operations": operations}
