"""The sessions: opened at their first use, closed when idle, never when busy; and the skillbooks behind them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from ace import LiteLLMClient
from ace.outputs import AgentOutput
from ace.protocols import Usage
from ace.protocols.observers import ModelCalled, emit
from ace.runners import Answer
from ace_mcp import MCPServerConfig, MCPToolError, SessionRegistry
from ace_mcp.models import SessionConfig
from ace_mcp.sessions import SessionModel
from ace_mcp.stopping import Stop
from tests.mcp.clients import World, content_of, error_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def registry(tmp_path: Path, clock: Clock, **settings: Any) -> SessionRegistry:
    config = MCPServerConfig(skillbook=str(tmp_path / "skills.db"), **settings)
    client = LiteLLMClient("openai/scripted", api_base="http://127.0.0.1:9/v1", api_key="none")
    return SessionRegistry(config, lambda wanted: SessionModel(client), clock=clock)


def use(sessions: SessionRegistry, session_id: str, config: SessionConfig | None = None) -> None:
    with sessions.using(session_id, Stop(), config):
        pass


def test_an_idle_session_is_closed_after_its_time_and_a_busy_one_never(tmp_path: Path) -> None:
    clock = Clock()
    sessions = registry(tmp_path, clock, session_ttl_seconds=10)
    use(sessions, "idle")
    with sessions.using("busy", Stop()):
        clock.now = 9.0
        assert sessions.close_idle() == []
        clock.now = 10.0
        assert sessions.close_idle() == ["idle"]
        clock.now = 1000.0
        assert sessions.close_idle() == []
        assert sessions.open_sessions == ["busy"]
    assert sessions.close_idle() == []  # it has just ended
    clock.now = 1010.0
    assert sessions.close_idle() == ["busy"]
    assert sessions.shut_down(seconds=0)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_server_closes_idle_sessions_by_itself(world: World, transport: str) -> None:
    """A session that was closed does not know its answers any more. If none is closed, this test does not end."""

    async def converse() -> None:
        async with world.connect(transport, session_ttl_seconds=0.05) as client:
            asked = content_of(await client.call_tool("ace.ask", {"session_id": "s", "question": "What about tides?"}))
            message = "another question"
            while "another question" in message:
                await anyio.sleep(0.5)
                given = {"session_id": "s", "question": "?", "answer": "!", "feedback": "no"}
                result = await client.call_tool("ace.learn.feedback", {**given, "answer_id": asked["answer_id"]})
                _, message, _ = error_of(result)
            assert "does not remember this answer" in message

    anyio.run(converse)


def test_a_session_remembers_its_last_thousand_answers(tmp_path: Path) -> None:
    sessions = registry(tmp_path, Clock())
    with sessions.using("s", Stop()) as session:
        for number in range(1001):
            output = AgentOutput(reasoning="", final_answer=str(number))
            session.remember(Answer.of(output, "?", "", Usage()), {"number": number})
        assert len(session.answers) == len(session.metadata) == 1000
        assert {str(answer) for answer in session.answers.values()} == {str(number) for number in range(1, 1001)}
        assert session.last_answer is not None and str(session.last_answer) == "1000"
    assert sessions.shut_down(seconds=0)


def test_a_session_too_many_closes_the_one_that_is_idle_for_longest(tmp_path: Path) -> None:
    clock = Clock()
    sessions = registry(tmp_path, clock, max_sessions=2)
    for session_id in ("first", "second", "first", "third"):
        clock.now += 1
        use(sessions, session_id)
    assert sessions.open_sessions == ["first", "third"]
    with sessions.using("first", Stop()), sessions.using("third", Stop()):
        with pytest.raises(MCPToolError) as refused:
            use(sessions, "fourth")
        assert refused.value.output.code == "ACE_MCP_SESSION_NOT_FOUND"
        assert "all 2 sessions are busy" in str(refused.value)
    assert sessions.shut_down(seconds=0)


def test_a_session_keeps_the_model_that_it_began_with(tmp_path: Path) -> None:
    sessions = registry(tmp_path, Clock())
    use(sessions, "s", SessionConfig(model="openai/one"))
    use(sessions, "s", SessionConfig(model="openai/one"))
    use(sessions, "s")
    for other in (SessionConfig(model="openai/two"), SessionConfig(model="openai/one", temperature=1.0)):
        with pytest.raises(MCPToolError, match="was opened with another session_config") as refused:
            use(sessions, "s", other)
        assert refused.value.output.code == "ACE_MCP_VALIDATION_ERROR"
    assert sessions.shut_down(seconds=0)


def test_only_new_calls_of_the_sessions_count_towards_the_budget(tmp_path: Path) -> None:
    sessions = registry(tmp_path, Clock(), max_cost=1.0)

    def spend(cost: float | None, *, recorded: bool = False) -> None:
        emit(ModelCalled("", "", "openai/scripted", "", 1, 1, cost, 0.1, recorded))

    with sessions.using("s", Stop()):
        spend(0.25)
        spend(0.5, recorded=True)
        spend(None)
    spend(0.5)  # by another part of the process
    assert sessions.budget_left == 0.75
    sessions.check_budget()
    with sessions.using("s", Stop()):
        spend(2.0)
    assert sessions.budget_left == 0.0
    with pytest.raises(MCPToolError, match=r"have cost 2\.2500 US dollars"):
        sessions.check_budget()
    assert sessions.shut_down(seconds=0)


def test_shutting_down_stops_what_is_running_and_opens_nothing_more(tmp_path: Path) -> None:
    sessions = registry(tmp_path, Clock())
    began, stopped = threading.Event(), Stop()

    def run() -> None:
        with sessions.using("s", stopped):
            began.set()
            while not stopped.token.is_cancelled:
                began.wait()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    assert sessions.shut_down(seconds=60)
    thread.join()
    assert stopped.reason == "shutdown"
    with pytest.raises(MCPToolError, match="the server is shutting down"):
        use(sessions, "t")


def test_the_session_config_chooses_the_model(world: World) -> None:
    async def converse() -> None:
        async with world.connect("stdio") as client:
            config = {"model": "openai/other", "temperature": 0.5, "max_tokens": 123}
            for session_id, given in (("a", {"session_config": config}), ("a", {}), ("b", {})):
                asked = {"session_id": session_id, "question": "?", **given}
                content_of(await client.call_tool("ace.ask", asked))
            later = {"session_id": "b", "question": "?", "session_config": config}
            code, message, _ = error_of(await client.call_tool("ace.ask", later))
            assert (code, "was opened with another" in message) == ("VALIDATION_ERROR", True)

    anyio.run(converse)
    assert [request.model for request in world.model.requests] == ["other", "other", "scripted"]
    body = world.model.requests[0].body
    assert (body["temperature"], body["max_tokens"]) == (0.5, 123)


def test_separate_skillbooks_are_kept_when_the_server_ends(world: World) -> None:
    async def learn() -> None:
        async with world.connect(separate_books=True) as client:
            for session_id in ("a.b", "a-b", "a_b", "A.b"):
                lesson = f"LESSON {session_id.encode().hex()}"
                given = {"session_id": session_id, "trace": {"question": "?", "answer": lesson, "reward": 0.0}}
                assert content_of(await client.call_tool("ace.learn.trace", given))["skill_count_after"] == 1
            code, message, _ = error_of(await client.call_tool("ace.skillbook.get", {"session_id": "none"}))
            assert (code, message[:17]) == ("SESSION_NOT_FOUND", "no session 'none'")

    async def look() -> None:
        async with world.connect(separate_books=True) as client:
            for session_id in ("a.b", "a-b", "a_b", "A.b"):
                book = content_of(await client.call_tool("ace.skillbook.get", {"session_id": session_id}))
                content = f"Remember LESSON {session_id.encode().hex()}."
                assert [skill["content"] for skill in book["skills"]] == [content]
                asked = {"session_id": session_id, "question": "?"}
                assert content_of(await client.call_tool("ace.ask", asked))["skill_count"] == 1

    anyio.run(learn)
    anyio.run(look)
    assert not (world.data / "skills.db").exists()
    assert len(list((world.data / "skills").glob("*.db"))) == 4


def test_two_clients_teach_one_skillbook_at_the_same_time(world: World) -> None:
    words = [[f"{name}{number}" for number in range(20)] for name in ("north", "south")]

    async def teach(transport: str, mine: list[str]) -> None:
        async with world.connect(transport) as client:
            for word in mine:
                given = {"session_id": "s", "trace": {"question": "?", "answer": f"LESSON {word}", "reward": 0.0}}
                assert content_of(await client.call_tool("ace.learn.trace", given))["learned"]

    async def both() -> None:
        async with anyio.create_task_group() as group:
            for transport, mine in zip(("stdio", "http"), words, strict=True):
                group.start_soon(teach, transport, mine)

    anyio.run(both)
    assert sorted(world.lessons()) == sorted(f"Remember LESSON {word}." for taught in words for word in taught)


@pytest.mark.parametrize(
    ("skillbook", "said"),
    [("skills.json", "--skillbook NAME.db"), ("acme://team", "cannot be opened"), ("broken.db", "cannot be opened")],
)
def test_a_skillbook_that_cannot_be_used_is_said_to_be_so(world: World, skillbook: str, said: str) -> None:
    (world.folder / "broken.db").write_text("not a database", encoding="utf-8")
    place = skillbook if "://" in skillbook else str(world.folder / skillbook)

    async def converse() -> None:
        async with world.connect(skillbook=place) as client:
            for name, given in (("ace.skillbook.get", {}), ("ace.ask", {"question": "?"})):
                code, message, _ = error_of(await client.call_tool(name, {"session_id": "s", **given}))
                assert (code, said in message) == ("INTERNAL_ERROR", True), message

    anyio.run(converse)
    assert (world.folder / "broken.db").read_text(encoding="utf-8") == "not a database"
