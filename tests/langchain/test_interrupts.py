"""An interrupted run and its resumption are one trace; a pause is not a failure, and is not learned from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from ace.context import SkillbookView
from ace_langchain import LangChain, LangChainExecuteStep, LangChainLLMClient, result_to_trace, skillbook_middleware
from ace_langchain.calling import CALLS
from tests.langchain import harbour
from tests.langchain.models import add, calls, in_turn, text_of
from tests.langchain.steps import SKILL, book
from tests.langchain.test_learning import chat_model, trace_of
from tests.support.scripted_server import ScriptedServer

THREAD: Any = {"configurable": {"thread_id": "7"}}
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
CITED = "By [sea-00001] it is 4."
STEPS = [
    ("call", "add", '{"a": 2, "b": 2}'),
    ("message", "user", '{"decisions": [{"type": "approve"}]}'),
    ("result", "add", "4"),
    ("message", "assistant", CITED),
]


def careful_agent(model: Any, saver: Any, inject: str) -> Any:
    own = [skillbook_middleware()] if inject == "middleware" else []
    asking = HumanInTheLoopMiddleware(interrupt_on={"add": True})
    return create_agent(model, [add], system_prompt="You add.", middleware=[*own, asking], checkpointer=saver)


def run_with(step: LangChainExecuteStep, item: Any) -> Any:
    return asyncio.run(step.execute(item, SkillbookView(book(SKILL))))


def steps_of(result: Any) -> list[tuple[str, str, str]]:
    return [(step["kind"], step["name"], step["content"]) for step in result.steps]


@pytest.mark.parametrize("inject", ["input", "middleware"])
@pytest.mark.parametrize("call", CALLS)
def test_a_pause_and_its_resumption_are_one_trace(call: Any, inject: Any) -> None:
    model = in_turn(calls("add", a=2, b=2), CITED)
    agent = careful_agent(model, InMemorySaver(), inject)
    step = LangChainExecuteStep(agent, inject=inject, config=THREAD, call=call)
    paused = run_with(step, "2+2?")
    assert (paused.success, paused.error, paused.output, paused.thread_id) == (None, None, "", "7")
    assert "Tool execution requires approval" in paused.waits_for
    assert "This is not a failure." in result_to_trace(paused)["feedback"]
    resumed = run_with(step, APPROVE)
    assert (resumed.success, resumed.output, resumed.task, resumed.waits_for) == (True, CITED, "2+2?", "")
    assert steps_of(resumed) == STEPS
    assert [step["place"].split()[0] for step in resumed.steps] == ["1", "2", "3", "4"]
    assert resumed.skill_ids == ("sea-00001",)
    assert (resumed.usage["model_calls"], resumed.usage["tool_calls"]) == (2, 1)
    assert [text_of(seen).count(SKILL) for seen in model.seen] == [1, 1]


def test_a_resumption_in_another_process_reads_the_thread() -> None:
    saver, model = InMemorySaver(), in_turn(calls("add", a=2, b=2), CITED)
    run_with(LangChainExecuteStep(careful_agent(model, saver, "input"), config=THREAD), "2+2?")
    resumed = run_with(LangChainExecuteStep(careful_agent(model, saver, "input"), config=THREAD), APPROVE)
    assert (resumed.success, resumed.task) == (True, "2+2?")
    assert steps_of(resumed) == STEPS


def test_a_tool_that_asks_is_told_once() -> None:
    @tool
    def book_berth(port: str) -> str:
        """Book a berth."""
        return f"{port}: {interrupt('Which berth?')}"

    model = in_turn(calls("book_berth", port="Bremen"), "Booked.")
    agent = create_agent(model, [book_berth], checkpointer=InMemorySaver())
    asked: list[Any] = []

    def answer(interrupts: Any) -> str:
        asked.extend(interrupts)
        return "berth 4"

    result = run_with(LangChainExecuteStep(agent, on_interrupt=answer), "Book.")
    assert asked == ["Which berth?"]
    assert [step[:2] for step in steps_of(result)] == [
        ("call", "book_berth"),
        ("message", "user"),
        ("result", "book_berth"),
        ("message", "assistant"),
    ]
    assert [use["output"] for use in result.intermediate_steps] == ["Bremen: berth 4"]
    assert (result.output, result.usage["tool_calls"]) == ("Booked.", 1)


def test_a_command_without_the_name_of_its_thread_is_a_wrong_use() -> None:
    step = LangChainExecuteStep(careful_agent(in_turn(), InMemorySaver(), "input"))
    with pytest.raises(ValueError, match="a Command resumes a thread; name it: config="):
        run_with(step, APPROVE)


def test_only_the_resumed_run_is_learned_from() -> None:
    with ScriptedServer(harbour.script) as server:
        asking: Any = HumanInTheLoopMiddleware(interrupt_on={"tide_table": True})
        agent: Any = create_agent(chat_model(server), harbour.TOOLS, middleware=[asking], checkpointer=InMemorySaver())
        runner = LangChain.from_model(agent, ace_llm=LangChainLLMClient(chat_model(server)), config=THREAD)
        [paused] = runner.run(["When is high water in Bremen?"])
        assert paused.error is None
        assert (server.by_role("reflector"), runner.skillbook.skills()) == ([], [])
        [resumed] = runner.run([APPROVE])
        assert len(server.by_role("reflector")) == 1
    assert trace_of(resumed)["question"] == "When is high water in Bremen?"
    assert [skill.content for skill in runner.skillbook.skills()] == [harbour.RULE]
