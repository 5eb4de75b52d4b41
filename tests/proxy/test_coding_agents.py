"""The real programs Claude Code and Codex, whose model is behind the proxy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
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
from tests.support.loopback import LoopbackHandler
from tests.support.scripted_agents_model import Action, Script, Turn
from tests.support.scripted_anthropic_server import ScriptedAnthropicServer

SKILL = "When you count the lines of a file, use the command wc."


@contextmanager
def proxy_before(url: str, folder: Path, skills: Sequence[str] = ()) -> Iterator[str]:
    """Run a proxy before a model, and yield its address."""
    book = folder / "skills.db"
    with Skillbook.open(book) as opened:
        for skill in skills:
            opened.add_skill("lessons", skill)
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


def counting(agent: CodingAgent) -> Script:
    """Return a script in which the model counts the lines of a file with a command."""

    def script(turn: Turn) -> Action:
        return agent.shell("wc -l notes.txt") if turn.results == 0 else "It has 3 lines."

    return script


def count_twice(home: AgentHome) -> list[str]:
    """Run a session and resume it, and return what was printed."""
    home.lay_out()
    (home.project / "notes.txt").write_text("1\n2\n3\n")
    return [
        home.begin("Count the lines of the file notes.txt"),
        home.resume("Count the lines of the file again"),
    ]


of_each = pytest.mark.parametrize(
    "agent", [agent for agent in AGENTS if agent.name in ("claude", "codex")], ids=lambda agent: str(agent.name)
)


@of_each
def test_a_session_works_gets_skills_and_is_one_run(tmp_path: Path, agent: CodingAgent) -> None:
    agent.find()
    with agent.model(counting(agent)) as model, proxy_before(model.url, tmp_path, [SKILL]) as address:
        count_twice(AgentHome(agent, tmp_path / "home", address))
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


VARYING = re.compile(
    r"[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # of the machine, the session, turns and messages
    r"|(?<=turn_started_at_unix_ms\\\":)\d+|(?<=Chunk ID: )[0-9a-f]+|(?<=Wall time: )[\d.]+"  # of Codex
)
"""What two runs of a program differ in anyway."""


def without_varying(body: bytes) -> str:
    """Return a request without what the program varies. Codex writes its metadata in a random order, too."""
    text = body.decode()
    metadata = json.loads(body).get("client_metadata")
    if metadata is not None:
        written = json.dumps(metadata, separators=(",", ":"))
        assert written in text
        text = text.replace(written, json.dumps(metadata, sort_keys=True))
    return VARYING.sub("", text)


@of_each
def test_a_session_is_the_same_with_and_without_the_proxy(
    tmp_path: Path, agent: CodingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.find()
    received: list[tuple[str, bytes]] = []
    read = LoopbackHandler.body

    def body(handler: LoopbackHandler) -> bytes:
        found = read(handler)
        received.append((handler.path, found))
        return found

    monkeypatch.setattr(LoopbackHandler, "body", body)
    ways = []
    for is_through_proxy in (False, True):
        received.clear()
        with agent.model(counting(agent)) as model, proxy_before(model.url, tmp_path) as address:
            printed = count_twice(AgentHome(agent, tmp_path / "home", address if is_through_proxy else model.url))
        shutil.rmtree(tmp_path / "home")
        ways.append((printed, sorted((path, without_varying(sent)) for path, sent in received)))
    assert len(ways[0][1]) >= 4  # two turns, each with a command
    assert ways[1] == ways[0]
    [run] = read_runs(tmp_path / "proxy" / "runs")
    assert isinstance(run, Run)  # it did go through the proxy
