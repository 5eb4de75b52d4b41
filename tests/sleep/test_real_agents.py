"""Real coding agents make a mistake; the lesson from their stored session is in the prompt of their next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.sleep.conftest import Machine
from tests.sleep.test_night import LESSON
from tests.support.agent_sessions import DIRECTLY, RIGHT, SHOP, Repo
from tests.support.coding_agents import AGENTS, AgentHome, CodingAgent
from tests.support.scripted_agents_model import Action, Turn

SECOND = "Do it once more"
READ_AGENTS_FILE = ("claude", "codex")
"""Agents in whose prompt the file was seen without any settings."""


@dataclass
class Watched:
    """An agent in a repository, and what it sent in its second session."""

    home: AgentHome
    prompts: list[str] = field(default_factory=list)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    agent: CodingAgent = request.param
    agent.find()
    prompts: list[str] = []

    def script(turn: Turn) -> Action:
        if SECOND in turn.question:
            prompts.append(turn.prompt)
            return "Done again."
        return [agent.shell(DIRECTLY), agent.shell(RIGHT), "Done."][turn.results]

    with agent.model(script) as model:
        home = AgentHome(agent, tmp_path / "home", model.url)
        home.lay_out()
        repo = Repo(home.project)
        repo.git("init", "--quiet", "--initial-branch=main")
        repo.commit(SHOP)
        yield Watched(home, prompts)


def test_the_lesson_of_a_session_is_in_the_prompt_of_the_next(watched: Watched) -> None:
    home = watched.home
    home.begin("Make the tests green")
    machine = Machine(home.folder, Repo(home.project))
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == LESSON
    assert machine.ace("review", "--accept", lesson["id"]).code == 0
    home.begin(SECOND)
    assert LESSON in (home.project / "AGENTS.md").read_text("utf-8")
    if home.agent.name in READ_AGENTS_FILE:
        assert any(LESSON in prompt for prompt in watched.prompts)
