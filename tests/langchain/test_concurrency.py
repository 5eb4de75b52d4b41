"""As many inputs are at work at once as the run has workers, also where what runs is synchronous."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from ace import ACEStepContext, Pipeline, Skillbook
from ace.context import SkillbookView
from ace_langchain import LangChainExecuteStep
from ace_langchain.calling import CALLS, Call

WORKERS = 16


class Meeting:
    """Lets its guests go once all are there, so that a run with fewer at once would not end."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(WORKERS)

    def attend(self, value: Any) -> Any:
        self._barrier.wait(timeout=60)
        return {"messages": []} if isinstance(value, dict) else value


def runnable(kind: str, meeting: Meeting) -> Any:
    if kind == "lambda":
        return RunnableLambda(meeting.attend)
    builder = StateGraph(MessagesState)
    attend: Any = meeting.attend
    builder.add_node("attend", attend)
    builder.add_edge(START, "attend")
    return builder.compile()


@pytest.mark.parametrize("kind", ["lambda", "graph"])
@pytest.mark.parametrize("call", CALLS)
def test_as_many_as_the_run_has_workers(kind: str, call: Call) -> None:
    view = SkillbookView(Skillbook())
    pipeline = Pipeline([LangChainExecuteStep(runnable(kind, Meeting()), call=call)])
    contexts = [ACEStepContext(sample=f"task {number}", skillbook=view) for number in range(2 * WORKERS)]
    results = pipeline.run(contexts, workers=WORKERS)
    assert [result.error for result in results] == [None] * (2 * WORKERS)
    assert {getattr(result.output.trace, "error", "?") for result in results if result.output is not None} <= {
        None,
        "it ended on a message of type 'human', without an answer",
    }


def test_on_a_loop_of_the_caller_too() -> None:
    step = LangChainExecuteStep(runnable("lambda", Meeting()), call="sync")
    view = SkillbookView(Skillbook())

    async def together() -> list[Any]:
        return await asyncio.gather(*(step.execute(f"task {number}", view) for number in range(WORKERS)))

    assert [result.error for result in asyncio.run(together())] == [None] * WORKERS
