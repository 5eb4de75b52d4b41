"""A key that the model that learns refuses stops the run, before every item has cost a run of the agent."""

from __future__ import annotations

from pathlib import Path

from langchain_core.runnables import RunnableLambda

from ace.protocols.observers import Event, RunEnded, observing
from ace_langchain import LangChain
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedServer

ITEMS = 10


def test_a_refused_key_costs_no_agent_run_for_each_item(tmp_path: Path) -> None:
    ran: list[str] = []

    def agent(task: object) -> str:
        ran.append(str(task))
        return "done"

    seen: list[Event] = []
    with ScriptedServer(lambda request: HttpError(401, "wrong key")) as server, observing(seen.append):
        runner = LangChain.from_model(
            RunnableLambda(agent), ace_llm=client_for(server), skillbook_path=tmp_path / "skills.db"
        )
        runner.run([f"item {number}" for number in range(ITEMS)], lag=0)
        assert len(ran) == len(server.requests) == 1
        by_default = LangChain.from_model(RunnableLambda(agent), ace_llm=client_for(server))
        by_default.run([f"item {number}" for number in range(100)])
        assert len(server.requests) < 10 and len(ran) < 20
    assert [event.stopped_by for event in seen if isinstance(event, RunEnded)] == ["authentication"] * 2
