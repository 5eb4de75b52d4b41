"""The real programs Claude Code and Codex, whose model is behind the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ace.integrations import listening_socket
from ace.logs import Run, read_runs
from ace.skillbook import Skillbook
from ace_proxy.app import Proxy
from ace_proxy.conversations import Conversations
from ace_proxy.recording import Recorder
from ace_proxy.serving import serving
from ace_proxy.skills import SkillSource
from ace_proxy.upstream import Upstream
from tests.support.coding_agents import AGENTS, AgentHome, CodingAgent
from tests.support.scripted_agents_model import Action, Turn
from tests.support.scripted_anthropic_server import ScriptedAnthropicServer

SKILL = "When you count the lines of a file, use the command wc."


@contextmanager
def proxy_before(url: str, folder: Path) -> Iterator[str]:
    """Run a proxy with a skill before a model, and yield its address."""
    book = folder / "skills.db"
    with Skillbook.open(book) as opened:
        opened.add_skill("lessons", SKILL)
    conversations = Conversations()
    recorder = Recorder(folder / "proxy", conversations, lambda _: None, silence=600, tell=print)
    source = SkillSource(str(book), lambda: Skillbook.open(book), budget=2000, tell=print)
    source.start()
    recorder.start()
    upstream = Upstream.chosen(url, {})
    with (
        listening_socket("127.0.0.1", 0) as listening,
        serving(
            lambda client: Proxy(upstream, client, conversations=conversations, skills=source, recorder=recorder),
            listening,
        ),
    ):
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    recorder.close()
    source.close()


@pytest.mark.parametrize(
    "agent", [agent for agent in AGENTS if agent.name in ("claude", "codex")], ids=lambda agent: str(agent.name)
)
def test_a_session_works_gets_skills_and_is_one_run(tmp_path: Path, agent: CodingAgent) -> None:
    agent.find()

    def script(turn: Turn) -> Action:
        return agent.shell("wc -l notes.txt") if turn.results == 0 else "It has 3 lines."

    with agent.model(script) as model, proxy_before(model.url, tmp_path) as address:
        home = AgentHome(agent, tmp_path / "home", address)
        home.lay_out()
        (home.project / "notes.txt").write_text("1\n2\n3\n")
        home.begin("Count the lines of the file notes.txt")
        home.resume("Count the lines of the file again")
    if isinstance(model, ScriptedAnthropicServer):
        systems = [request.system.count(SKILL) for request in model.requests if request.tools]
        assert set(systems) == {1}
    runs = [run for run in read_runs(tmp_path / "proxy" / "runs") if isinstance(run, Run)]
    whole = [run for run in runs if any(step.kind == "call" for step in run.steps)]
    assert len(whole) == 1, [run.task for run in runs]
    [run] = whole
    said = [(step.kind, step.speaker) for step in run.steps if step.speaker != "harness" and step.kind != "thought"]
    turn = [("message", "person"), ("call", "agent"), ("result", "tool"), ("message", "agent")]
    assert said == turn * 2
    assert ["3 notes.txt" in step.content for step in run.steps if step.kind == "result"] == [True, True]
