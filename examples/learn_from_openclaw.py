"""Learn from two stored sessions of OpenClaw, without a key, a network or OpenClaw.

In the first session, the user corrects the agent; in the second, the provider of the model rejects a request. The model
that learns is a script on 127.0.0.1: as the reflector, it recognises three problems; as the skill manager, it adds new
skills. Run it from the root of the checkout:

    python -m examples.learn_from_openclaw
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ace import LiteLLMClient
from ace_openclaw import OpenClaw, events_to_turn_traces
from examples.scripted_model import ScriptedModel

TRACES = Path(__file__).with_name("traces")
LESSONS = {
    "ZeroDivisionError": "Guard a division against an empty list.",
    "The user's next message was: Too long": "Answer in one sentence.",
    "The model failed (400)": "Check the request when the provider refuses it; the same request fails again.",
}
LEARNING = re.compile(r'"learning": "([^"]+)"')


def script(role: str, prompt: str) -> Mapping[str, Any]:
    return reflector(prompt) if role == "reflector" else skill_manager(prompt)


def reflector(prompt: str) -> Mapping[str, Any]:
    lessons = [lesson for sign, lesson in LESSONS.items() if sign in prompt]
    words = " ".join(lessons)
    return {
        "reasoning": "Looked for signs of trouble.",
        "error_identification": "There was trouble." if lessons else "",
        "root_cause_analysis": words,
        "correct_approach": words,
        "key_insight": words,
        "extracted_learnings": [{"learning": lesson} for lesson in lessons],
    }


def skill_manager(prompt: str) -> Mapping[str, Any]:
    new = [lesson for lesson in LEARNING.findall(prompt) if f"] {lesson}" not in prompt]
    return {"reasoning": "", "operations": [{"type": "ADD", "section": "claws", "content": lesson} for lesson in new]}


def main() -> None:
    sessions = sorted(TRACES.glob("openclaw-*.jsonl"))
    for session in sessions:
        for trace in events_to_turn_traces(session):
            print(f"{trace['question']} -> {str(trace['answer'])[:40] or '(nothing)'}")
            print("".join(f"  {line}\n" for line in str(trace["feedback"]).splitlines()), end="")
    with ScriptedModel(script) as model:
        client = LiteLLMClient("openai/scripted", api_base=model.api_base, api_key="none")
        runner = OpenClaw.from_model(ace_llm=client)
        runner.run(sessions, max_in_flight=1)
        print(f"\n{runner.report.turns_learned} turns taught:")
        # What no one judged is pending: kept, and shown to no agent before it is accepted.
        for skill in runner.skillbook.skills(include_invalid=True):
            print(f"  [{skill.id}] {skill.status}: {skill.content}")
        runner.run(sessions)
        print(f"The second time, {runner.report.turns_known} turns were known already.")


if __name__ == "__main__":
    main()
