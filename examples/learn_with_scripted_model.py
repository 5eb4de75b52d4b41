"""An agent learns the rules of a company from its own mistakes, without a key or a network.

The model is a script on 127.0.0.1 for all three roles, which computes each answer from the prompt alone: as the agent,
it names the right carrier if and only if the skill for it is in the prompt. Run it from the root of the checkout:

    python -m examples.learn_with_scripted_model
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ace import ACE, LiteLLMClient, SimpleEnvironment
from examples.house_rules import SAMPLES, print_report
from examples.scripted_model import ScriptedModel

SKILL = re.compile(r"\[([\w-]+)\] Send (\w+) by (\w+)\.")
LEARNING = re.compile(r'"learning": "(Send \w+ by \w+\.)"')
MATERIAL = re.compile(r"made of (\w+)\?")
CITED = re.compile(r"^The agent cited: (.+)$", re.MULTILINE)
JUDGEMENT = re.compile(r"(Correct|Incorrect): the answer .*'(\w+)'")


def script(role: str, prompt: str) -> Mapping[str, Any]:
    roles = {"agent": agent, "reflector": reflector, "skill_manager": skill_manager}
    return roles[role](prompt)


def agent(prompt: str) -> Mapping[str, Any]:
    material = MATERIAL.findall(prompt)[-1]
    for skill_id, known, carrier in SKILL.findall(prompt):
        if known == material:
            return {"reasoning": f"According to [{skill_id}].", "final_answer": carrier}
    return {"reasoning": "No rule is known.", "final_answer": "post"}


def reflector(prompt: str) -> Mapping[str, Any]:
    material = MATERIAL.findall(prompt)[-1]
    verdict, carrier = JUDGEMENT.findall(prompt)[-1]
    wrong = verdict == "Incorrect"
    cited = [skill_id for ids in CITED.findall(prompt) for skill_id in ids.split(", ")]
    learning = f"Send {material} by {carrier}."
    return {
        "reasoning": f"The answer was {verdict.lower()}.",
        "error_identification": f"It did not know how {material} is sent." if wrong else "",
        "root_cause_analysis": "A rule of the company was missing." if wrong else "The answer was correct.",
        "correct_approach": learning,
        "key_insight": learning,
        "extracted_learnings": [{"learning": learning}] if wrong else [],
        "skill_tags": [{"id": skill_id, "tag": "harmful" if wrong else "helpful"} for skill_id in cited],
    }


def skill_manager(prompt: str) -> Mapping[str, Any]:
    known = {f"Send {material} by {carrier}." for _, material, carrier in SKILL.findall(prompt)}
    new = [learning for learning in LEARNING.findall(prompt) if learning not in known]
    operations = [{"type": "ADD", "section": "dispatch", "content": learning} for learning in new]
    return {"reasoning": "What is new goes in.", "operations": operations}


def main() -> None:
    with ScriptedModel(script) as model:
        client = LiteLLMClient("openai/scripted", api_base=model.api_base)
        runner = ACE.from_client(client, environment=SimpleEnvironment())
        # With max_in_flight=1, each sample sees the skills from all earlier ones, so every run prints the same.
        results = runner.run(SAMPLES, epochs=3, max_in_flight=1)
    print_report(results, runner.skillbook, client.usage)


if __name__ == "__main__":
    main()
