"""An agent that runs elsewhere teaches through the middleware, and skills may be for one agent only."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from ace import TraceAnalyser
from ace.cli.inputs import gather_traces
from ace_langchain import LangChainLLMClient, records_in, result_to_trace, skillbook_middleware
from tests.langchain import harbour
from tests.langchain.models import add, calls, divide, in_turn, text_of
from tests.langchain.steps import SKILL, book, run
from tests.langchain.test_learning import chat_model
from tests.support.scripted_server import ScriptedServer

OWN = "Read the almanac first."


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [False, True])
def test_a_recorded_agent_teaches_without_our_runner(tmp_path: Path, *, is_async: bool) -> None:
    path = tmp_path / "runs.jsonl"
    with ScriptedServer(harbour.script) as server:
        agent: Any = create_agent(chat_model(server), harbour.TOOLS, middleware=[skillbook_middleware(record=path)])
        question = {"messages": "When is high water in Bremen?"}
        with pytest.raises(LookupError):
            asyncio.run(agent.ainvoke(question)) if is_async else agent.invoke(question)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        analyser = TraceAnalyser.from_client(LangChainLLMClient(chat_model(server)))
        [result] = analyser.run(records_in(path))
        assert result.error is None
        assert [skill.content for skill in analyser.skillbook.skills()] == [harbour.RULE]
        shown = skillbook_middleware(analyser.skillbook, record=path)
        agent = create_agent(chat_model(server), harbour.TOOLS, middleware=[shown])
        agent.invoke(question)
    first, second = map(result_to_trace, records_in(path))
    assert (first["success"], first["metadata"]["failed_at"]) == (False, "tools/tide_table")
    assert (second["success"], second["answer"], second["skill_ids"]) == (
        *(None, "By [tides-00001]: High water in Bremen is at nine."),
        ["tides-00001"],
    )


def test_a_thread_is_one_trace_of_all_its_turns(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    model = in_turn("5", "4", calls("add", a=1, b=1), "2")
    asking = HumanInTheLoopMiddleware(interrupt_on={"add": True})
    agent: Any = create_agent(
        model, [add], middleware=[skillbook_middleware(record=path), asking], checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "7"}}
    for text in ("2+2?", "No, it is 4.", "1+1?"):
        agent.invoke({"messages": text}, config)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    with gather_traces([str(path)]) as found:
        assert len(found.traces) == 1
    [record] = records_in(path)
    trace = result_to_trace(record)
    assert [(step["kind"], step["content"]) for step in trace["steps"]] == [
        ("message", "2+2?"),
        ("message", "5"),
        ("message", "No, it is 4."),
        ("message", "4"),
        ("message", "1+1?"),
        ("call", '{"a": 1, "b": 1}'),
        ("result", "2"),
        ("message", "2"),
    ]


def test_a_function_gets_each_record() -> None:
    kept: list[Any] = []
    agent: Any = create_agent(
        in_turn(OSError("no route")), [divide], middleware=[skillbook_middleware(agent="sums", record=kept.append)]
    )
    with pytest.raises(OSError, match="no route"):
        agent.invoke({"messages": "1/0?"})
    [record] = kept
    trace = result_to_trace(record)
    assert (trace["question"], trace["metadata"]["failed_at"], trace["metadata"]["error"]) == (
        *("1/0?", "model"),
        "OSError: no route",
    )
    assert record["metadata"]["agent"] == "sums"


def test_a_tool_that_asks_and_waits_is_not_recorded_as_a_failure() -> None:
    @tool
    def book_berth(port: str) -> str:
        """Book a berth."""
        return f"{port}: {interrupt('Which berth?')}"

    kept: list[Any] = []
    model = in_turn(calls("book_berth", port="Bremen"), "Booked.")
    recorded = skillbook_middleware(record=kept.append)
    agent: Any = create_agent(model, [book_berth], middleware=[recorded], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "7"}}
    agent.invoke({"messages": "Book."}, config)
    assert kept == []
    agent.invoke(Command(resume="berth 4"), config)
    [record] = kept
    assert [step["content"] for step in result_to_trace(record)["steps"]][-2:] == ["Bremen: berth 4", "Booked."]


@pytest.mark.parametrize("inject", ["input", "middleware"])
def test_a_skill_of_a_sub_agent_is_shown_to_it_only(inject: Any) -> None:
    skills = book(SKILL)
    skills.add_skill("agent:researcher", OWN)
    inner, outer = in_turn("It is nine."), in_turn(calls("research", question="When?"), "At nine.")
    researcher: Any = create_agent(inner, [], middleware=[skillbook_middleware(skills, agent="researcher")])

    @tool
    def research(question: str) -> str:
        """Ask the researcher."""
        state = researcher.invoke({"messages": question})
        return str(state["messages"][-1].content)

    agent: Any = create_agent(outer, [research], middleware=[skillbook_middleware(skills)])
    assert run(agent, "When?", skills, inject=inject).success
    outer_seen, inner_seen = text_of(outer.seen[0]), text_of(inner.seen[0])
    assert (outer_seen.count(SKILL), outer_seen.count(OWN)) == (1, 0)
    assert (inner_seen.count(SKILL), inner_seen.count(OWN)) == (inject == "middleware", 1)


def test_a_skill_of_an_agent_without_our_runner() -> None:
    skills = book(SKILL)
    skills.add_skill("agent:researcher", OWN)
    for name, count in (("researcher", 1), ("writer", 0), ("", 0)):
        model = in_turn("one")
        agent: Any = create_agent(model, [], middleware=[skillbook_middleware(skills, agent=name)])
        agent.invoke({"messages": "When?"})
        assert (text_of(model.seen[0]).count(SKILL), text_of(model.seen[0]).count(OWN)) == (1, count)
