"""An agent that asks the wrong tool first, and the right one once it has learned."""

from __future__ import annotations

from typing import Any

from acme_agent import AcmeAgent

from ace import Skillbook
from ace.outputs import ReflectorOutput, SkillManagerOutput
from ace.plugins import get_runner

RULE = "Ask the harbour master; there is no tide table."


def tide_table(port: str) -> str:
    raise LookupError(f"there is no tide table of {port}")


def harbour_master(port: str) -> str:
    return f"High water in {port} is at nine."


async def model(said: str) -> str:
    if "returned: " in said:
        return said.rpartition("returned: ")[2]
    if "failed: " in said:
        return "I do not know."
    return "CALL harbour_master Bremen" if RULE in said else "CALL tide_table Bremen"


class Reflector:
    def reflect(self, question: str, agent_output: object, skillbook: object, **known: Any) -> ReflectorOutput:
        failed = [step for step in known["trace"]["steps"] if step["is_error"]]
        return ReflectorOutput(
            reasoning="Looked for a tool that failed.",
            error_identification=failed[0]["content"] if failed else "",
            root_cause_analysis="",
            correct_approach="",
            key_insight=RULE if failed else "",
        )


class SkillManager:
    def update_skills(self, reflection: ReflectorOutput, skillbook: object, **known: Any) -> SkillManagerOutput:
        added = [{"type": "ADD", "section": "tides", "content": RULE}] if reflection.key_insight else []
        return SkillManagerOutput.model_validate({"reasoning": "", "operations": added})


def test_what_the_first_run_taught_helps_the_second() -> None:
    agent = AcmeAgent(model, {"tide_table": tide_table, "harbour_master": harbour_master})
    book = Skillbook()
    roles = {"reflector": Reflector(), "skill_manager": SkillManager()}
    # No one judges the answers of this agent.
    runner = get_runner("acme").from_roles(agent, **roles, skillbook=book, unproven="keep")
    first, second = (runner.run(["When is high water in Bremen?"])[0] for _ in range(2))
    assert first.output.trace["answer"] == "I do not know."
    assert [skill.content for skill in book.skills()] == [RULE]
    assert second.output.trace["answer"] == "High water in Bremen is at nine."
