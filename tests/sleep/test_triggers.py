"""Skill folders are tried with real coding agents: for which prompts they open them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.sleep.conftest import Machine
from tests.sleep.test_trials import CLAUDE, CODEX, TITLES, tried_with
from tests.sleep.test_unproven import later
from tests.support.agent_sessions import Shell
from tests.support.coding_agents import CodingAgent
from tests.support.scripted_agents_model import Action, ToolCall, Turn
from tests.support.scripted_server import ScriptedServer

TASK = "Make the tests green"
REWORDINGS = ["Repair the failing tests", "Get the suite to pass"]
NEAR_MISSES = ["Paint the tests page green", "Count the tests"]
STEPS = ("make fetch", "make generate", "make check")
NAME = "make-tests-green"
"""The name that the skill gets."""
OPENING: Mapping[str, Action] = {
    "claude": ToolCall("Skill", {"skill": NAME}),
    "codex": f"cat .agents/skills/{NAME}/SKILL.md",
}


def tried(machine: Machine, agent: CodingAgent, opens: Callable[[str], bool]) -> list[str]:
    """Return the evidence of a procedure of two sessions after an agent that opens the skill for some prompts."""
    for hours in range(2):
        machine.codex(*(Shell(step, "ok") for step in STEPS), **later(hours))

    def behaviour(turn: Turn) -> list[Action]:
        assert NAME in turn.prompt
        return [OPENING[agent.name]] if opens(turn.question) else []

    with (
        ScriptedServer(lambda request: {"rewordings": REWORDINGS, "near_misses": NEAR_MISSES}) as server,
        tried_with(machine, agent, behaviour),
    ):
        machine.environ = {
            **machine.environ,
            "ACE_MODEL": "openai/scripted",
            "ACE_API_BASE": server.api_base,
            "OPENAI_API_KEY": "k",
        }
        done = machine.ace("sleep", "--json", "--yes", "--prove-with", agent.name)
    assert done.code == 0, done.err
    assert (done.data["calls"], done.data["agent_runs"]) == (1, 5)
    [lesson] = done.data["lessons"]
    return list(lesson["evidence"])


def needs(question: str) -> bool:
    return any(prompt in question for prompt in (TASK, *REWORDINGS))


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_a_skill_that_the_agent_opens_only_when_it_is_needed_is_proven(machine: Machine, agent: CodingAgent) -> None:
    evidence = tried(machine, agent, needs)
    opened = f"opened for 3 of 3 prompts that need it, 0 of 2 others ({TITLES[agent.name]})"
    assert evidence[-1] == f"PROVEN (grade D): {opened}"


def test_a_skill_that_the_agent_always_opens_is_not_proven(machine: Machine) -> None:
    assert tried(machine, CLAUDE, lambda question: True)[-1] == (
        "opened for 3 of 3 prompts that need it, 2 of 2 others (Claude Code)"
    )


def test_a_skill_that_the_agent_does_not_open_is_not_proven(machine: Machine) -> None:
    assert tried(machine, CLAUDE, lambda question: False)[-1] == (
        "opened for 0 of 3 prompts that need it, 0 of 2 others (Claude Code)"
    )
