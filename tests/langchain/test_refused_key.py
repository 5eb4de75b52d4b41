"""A key that the model that learns refuses stops the run, before every item has cost a run of the agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from ace import LLMAuthenticationError
from ace.protocols.observers import Event, RunEnded, observing
from ace_langchain import LangChain, LangChainLLMClient
from tests.langchain import harbour
from tests.langchain.test_learning import chat_model
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

ITEMS = 10


def test_a_refused_key_costs_no_agent_run_for_each_item(tmp_path: Path) -> None:
    ran: list[str] = []

    def agent(task: object) -> str:
        ran.append(str(task))
        return "done"

    seen: list[Event] = []
    with ScriptedServer(lambda request: HttpError(401, "wrong key")) as server, observing(seen.append):
        runner = LangChain.from_model(
            RunnableLambda(agent), ace_llm=client_for(server), check_key=False, skillbook_path=tmp_path / "skills.db"
        )
        runner.run([f"item {number}" for number in range(ITEMS)], max_in_flight=1)
        assert len(ran) == len(server.requests) == 1
        by_default = LangChain.from_model(RunnableLambda(agent), ace_llm=client_for(server), check_key=False)
        by_default.run([f"item {number}" for number in range(100)])
        assert len(server.requests) < 10 and len(ran) < 20
    assert [event.stopped_by for event in seen if isinstance(event, RunEnded)] == ["authentication"] * 2


def test_a_refused_key_is_told_before_the_agent_runs() -> None:
    ran: list[str] = []
    agent: Any = RunnableLambda(lambda task: ran.append(str(task)))
    for make in (
        lambda server: client_for(server),
        lambda server: LangChainLLMClient(chat_model(server)),
    ):
        with ScriptedServer(lambda request: HttpError(401, "wrong key")) as server:
            runner = LangChain.from_model(agent, ace_llm=make(server))
            for _ in range(2):
                with pytest.raises(LLMAuthenticationError, match="wrong key"):
                    runner.run(["item"] * ITEMS)
            with pytest.raises(LLMAuthenticationError, match="wrong key"):
                asyncio.run(runner.arun(["item"] * ITEMS))
            assert [
                request.body.get("max_tokens") or request.body["max_completion_tokens"] for request in server.requests
            ] == [16] * 3
    assert ran == []


def test_the_check_is_made_once_and_only_for_the_key() -> None:
    def script(request: ScriptedRequest) -> Any:
        return (
            HttpError(400, "max_tokens is too small") if "Reply with OK." in request.text else harbour.script(request)
        )

    with ScriptedServer(script) as server:
        runner = LangChain.from_model(RunnableLambda(str.upper), ace_llm=LangChainLLMClient(chat_model(server)))
        for _ in range(2):
            [result] = runner.run(["When is high water in Husum?"])
            assert result.error is None
        assert sum("Reply with OK." in request.text for request in server.requests) == 1


def test_a_model_without_a_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran: list[object] = []
    runner = LangChain.from_model(RunnableLambda(ran.append), ace_model="gpt-4o-mini")
    with pytest.raises(LLMAuthenticationError, match="OPENAI_API_KEY"):
        runner.run(["item"])
    assert ran == []
