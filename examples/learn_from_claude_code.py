"""Learn from two stored sessions of Claude Code, without a key, a network or Claude Code.

In the first session, a test fails and the code is fixed; in the second, a tool is denied. The model is a script on
127.0.0.1: as the reflector, it recognises these two problems; as the skill manager, it adds new skills. Run it from the
root of the checkout:

    python -m examples.learn_from_claude_code
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ace import LiteLLMClient, TraceAnalyser
from ace_claude_code import transcript_to_trace
from examples.scripted_model import ScriptedModel

TRACES = Path(__file__).with_name("traces")
LESSONS = {
    "was denied": "Ask for the permission before you plan with a tool that may be denied.",
    "FAILED (errors=1)": "Run the tests before the first change, and again after the last one.",
}
LEARNING = re.compile(r'"learning": "([^"]+)"')


def script(role: str, prompt: str) -> Mapping[str, Any]:
    return reflector(prompt) if role == "reflector" else skill_manager(prompt)


def reflector(prompt: str) -> Mapping[str, Any]:
    lesson = next((lesson for sign, lesson in LESSONS.items() if sign in prompt), "")
    return {
        "reasoning": "Looked for signs of trouble.",
        "error_identification": "There was trouble." if lesson else "",
        "root_cause_analysis": lesson,
        "correct_approach": lesson,
        "key_insight": lesson,
        "extracted_learnings": [{"learning": lesson}] if lesson else [],
    }


def skill_manager(prompt: str) -> Mapping[str, Any]:
    new = [lesson for lesson in LEARNING.findall(prompt) if f"] {lesson}" not in prompt]
    return {
        "reasoning": "",
        "operations": [{"type": "ADD", "section": "sessions", "content": lesson} for lesson in new],
    }


def main() -> None:
    traces = [transcript_to_trace(path) for path in sorted(TRACES.glob("claude-code-*.jsonl"))]
    for trace in traces:
        print(f"{trace['question']} -> {trace['answer']}")
        print(f"  {trace['feedback']}".replace("\n", "\n  "))
    with ScriptedModel(script) as model:
        analyser = TraceAnalyser.from_client(LiteLLMClient("openai/scripted", api_base=model.api_base))
        analyser.run(traces)
    print("\nWhat was learned:")
    # What no one judged is pending: kept, and shown to no agent before it is accepted.
    for skill in analyser.skillbook.skills(include_invalid=True):
        print(f"  [{skill.id}] {skill.status}: {skill.content}")


if __name__ == "__main__":
    main()
