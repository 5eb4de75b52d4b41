"""The real coding agents, whose model is behind the proxy."""

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
from tests.openclaw.real import CORRECTION, QUESTION, OpenClawHome, openclaw_command, play
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


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """The paths and bodies of the requests that a model on loopback gets."""
    found: list[tuple[str, bytes]] = []
    read = LoopbackHandler.body

    def body(handler: LoopbackHandler) -> bytes:
        sent = read(handler)
        found.append((handler.path, sent))
        return sent

    monkeypatch.setattr(LoopbackHandler, "body", body)
    return found


def run_with_calls(folder: Path, runs: int = 1) -> Run:
    """Return the first run of the agent, beside those in which it asks for a title and the like."""
    found = [run for run in read_runs(folder / "proxy" / "runs") if isinstance(run, Run)]
    whole = [run for run in found if any(step.kind == "call" for step in run.steps)]
    assert len(whole) == runs, [run.task for run in found]
    return min(whole, key=lambda run: str(run.started))


# Qwen Code is not on the page "I use X".
of_each = pytest.mark.parametrize(
    "agent", [agent for agent in AGENTS if agent.name != "qwen"], ids=lambda agent: str(agent.name)
)


@of_each
def test_a_session_works_gets_skills_and_is_one_run(
    tmp_path: Path, agent: CodingAgent, received: list[tuple[str, bytes]]
) -> None:
    agent.find()
    with agent.model(counting(agent)) as model, proxy_before(model.url, tmp_path, [SKILL]) as address:
        printed = count_twice(AgentHome(agent, tmp_path / "home", address))
    assert ["It has 3 lines." in text for text in printed] == [True, True]
    with_tools = [body for _, body in received if body and json.loads(body).get("tools")]
    assert len(with_tools) >= 4  # two turns, each with a command
    assert [body.count(SKILL.encode()) for body in with_tools] == [1] * len(with_tools)
    # A resumed session of Gemini CLI has the results of tools twice, so it does not begin with the earlier messages.
    turns = 1 if agent.name == "gemini" else 2
    run = run_with_calls(tmp_path, runs=3 - turns)
    said = [(step.kind, step.speaker) for step in run.steps if step.speaker != "harness" and step.kind != "thought"]
    turn = [("message", "person"), ("call", "agent"), ("result", "tool"), ("message", "agent")]
    assert said == turn * turns
    assert ["3 notes.txt" in step.content for step in run.steps if step.kind == "result"] == [True] * turns
    assert "Count the lines of the file notes.txt" in run.task


VARYING = re.compile(
    r"[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # of the machine, the session, turns and messages
    r"|(?<=turn_started_at_unix_ms\\\":)\d+|(?<=Chunk ID: )[0-9a-f]+|(?<=Wall time: )[\d.]+"  # of Codex
    r"|(?<=run_shell_command_)\d+|(?<=Process Group PGID: )\d+"  # of Gemini CLI
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
    tmp_path: Path, agent: CodingAgent, received: list[tuple[str, bytes]]
) -> None:
    agent.find()
    ways = []
    for is_through_proxy in (False, True):
        received.clear()
        with agent.model(counting(agent)) as model, proxy_before(model.url, tmp_path) as address:
            printed = count_twice(AgentHome(agent, tmp_path / "home", address if is_through_proxy else model.url))
        shutil.rmtree(tmp_path / "home")
        ways.append((printed, sorted((path, without_varying(sent)) for path, sent in received)))
    assert len(ways[0][1]) >= 4  # two turns, each with a command
    assert ways[1] == ways[0]
    assert list(read_runs(tmp_path / "proxy" / "runs"))  # it did go through the proxy


def test_a_session_of_openclaw_works_gets_skills_and_is_one_run(tmp_path: Path) -> None:
    claw = OpenClawHome(tmp_path / "home", tuple(openclaw_command()))
    skill = "To make mean([]) return 0, guard the division."  # not the one at which `play` takes another way
    with ScriptedAnthropicServer(play) as model, proxy_before(model.url, tmp_path, [skill]) as address:
        claw.lay_out(address)
        for message in (QUESTION, CORRECTION):
            done = claw.say(message)
            assert done.returncode == 0, done.stderr
        assert "mean([]) is 0 now." in done.stdout
    assert "if values else 0" in (claw.workspace / "calc.py").read_text(encoding="utf-8")
    systems = [request.system.count(skill) for request in model.requests if request.tools]
    assert systems == [1] * 5
    run = run_with_calls(tmp_path)
    assert [step.name for step in run.steps if step.kind == "call"] == ["exec", "edit", "exec"]
    assert run.answer == "mean([]) is 0 now."
