"""What the middleware records of a run says the same as the runner's trace, however the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError
from pydantic import BaseModel

from ace_langchain import result_to_trace, skillbook_middleware
from tests.langchain.models import add, calls, divide, in_turn
from tests.langchain.steps import book, run

QUESTION: Any = {"messages": "2+2?"}


class Sum(BaseModel):
    """The answer."""

    value: int


def flaky() -> Any:
    """A tool that fails once."""
    failed: list[bool] = []

    @tool
    def weigh(thing: str) -> str:
        """Weigh a thing."""
        if not failed:
            failed.append(True)
            raise OSError("the scale is busy")
        return "4 kg"

    return weigh


def loop() -> Any:
    return in_turn(*[calls("add", a=1, b=number) for number in range(40)])


Make = Callable[[list[Any]], Any]
"""Makes an agent that has these middlewares before and after others."""

CASES: dict[str, tuple[Make, dict[str, Any]]] = {
    "an answer": (lambda own: create_agent(in_turn("4"), [add], middleware=own), {}),
    "a model is asked again, and records first": (
        lambda own: create_agent(
            in_turn(OSError("503"), "4"), [], middleware=[*own, ModelRetryMiddleware(initial_delay=0)]
        ),
        {},
    ),
    "a model is asked again, and records last": (
        lambda own: create_agent(
            in_turn(OSError("503"), "4"), [], middleware=[ModelRetryMiddleware(initial_delay=0), *own]
        ),
        {},
    ),
    "a tool is called again, and records first": (
        lambda own: create_agent(
            in_turn(calls("weigh", thing="x"), "4 kg"),
            [flaky()],
            middleware=[*own, ToolRetryMiddleware(initial_delay=0)],
        ),
        {},
    ),
    "a tool is called again, and records last": (
        lambda own: create_agent(
            in_turn(calls("weigh", thing="x"), "4 kg"),
            [flaky()],
            middleware=[ToolRetryMiddleware(initial_delay=0), *own],
        ),
        {},
    ),
    "a model fails": (lambda own: create_agent(in_turn(OSError("no route")), [], middleware=own), {}),
    "a tool fails": (
        lambda own: create_agent(in_turn(calls("divide", a=1, b=0)), [divide], middleware=own),
        {},
    ),
    "the limit of steps": (lambda own: create_agent(loop(), [add], middleware=own), {"recursion_limit": 7}),
    "the limit of model calls": (
        lambda own: create_agent(
            loop(), [add], middleware=[*own, ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")]
        ),
        {},
    ),
    "structured output": (
        lambda own: create_agent(in_turn(calls("Sum", value=4)), [], middleware=own, response_format=Sum),
        {},
    ),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("make", "config"), CASES.values(), ids=CASES)
def test_the_record_and_the_runner_agree(make: Make, config: dict[str, Any], *, is_async: bool) -> None:
    result = run(make([]), QUESTION, book(), config=config)
    trace: Any = result_to_trace(result)
    kept: list[Any] = []
    agent = make([skillbook_middleware(record=kept.append)])
    with suppress(OSError, ZeroDivisionError, GraphRecursionError):
        asyncio.run(agent.ainvoke(QUESTION, config)) if is_async else agent.invoke(QUESTION, config)
    [record] = kept
    recorded: Any = result_to_trace(record)
    for name in ("question", "answer"):
        assert recorded[name] == trace[name]
    # A stored conversation with an answer does not say whether that is right.
    assert recorded["success"] is (False if trace["success"] is False else None)
    assert recorded["metadata"]["error"] == trace["metadata"]["error"]
    # The runner also names the part of the node.
    assert trace["metadata"]["failed_at"].startswith(recorded["metadata"]["failed_at"])
    assert bool(trace["metadata"]["failed_at"]) is bool(recorded["metadata"]["failed_at"])


def test_a_run_that_is_cancelled_is_recorded() -> None:
    @tool
    async def wait(thing: str) -> str:
        """Wait."""
        await asyncio.Event().wait()
        return thing

    kept: list[Any] = []
    agent: Any = create_agent(
        in_turn(calls("wait", thing="x")), [wait], middleware=[skillbook_middleware(record=kept.append)]
    )
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(agent.ainvoke(QUESTION), 0.3))
    [record] = kept
    trace = result_to_trace(record)
    assert (trace["success"], trace["question"]) == (False, "2+2?")
    assert trace["metadata"]["error"] == "The run was cancelled, or it ran out of time."
    assert [step["content"] for step in trace["steps"]][-1] == '{"thing": "x"}'


def test_a_stream_that_is_abandoned_is_recorded() -> None:
    kept: list[Any] = []
    agent: Any = create_agent(loop(), [add], middleware=[skillbook_middleware(record=kept.append)])
    stream = agent.stream(QUESTION, stream_mode="updates")
    assert [list(next(stream)) for _ in range(3)] == [["model"], ["tools"], ["model"]]
    stream.close()
    [record] = kept
    trace = result_to_trace(record)
    assert (trace["success"], trace["metadata"]["error"]) == (
        False,
        "The caller stopped reading the stream before the run had ended.",
    )
    assert [step["kind"] for step in trace["steps"]][:3] == ["message", "call", "result"]


def test_recording_takes_no_step() -> None:
    agent: Any = create_agent(in_turn("4"), [], middleware=[skillbook_middleware(record=print)])
    assert [list(chunk) for chunk in agent.stream(QUESTION, stream_mode="updates")] == [["model"]]
