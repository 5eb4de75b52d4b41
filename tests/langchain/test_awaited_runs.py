"""Agents of LangChain are awaited: they run together on one event loop, and a cancelled task ends them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from ace import ACEStepContext, SampleResult
from ace_langchain import LangChain, LangChainLLMClient
from tests.langchain import harbour
from tests.langchain.test_learning import agent_of, chat_model, trace_of
from tests.support.gate import Gate
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

TASKS = [f"When is high water in Husum? ({number})" for number in range(6)]


def is_first_of_agent(request: ScriptedRequest) -> bool:
    return not request.role and all(message["role"] != "tool" for message in request.messages)


def test_agents_run_together_on_the_loop_of_the_caller() -> None:
    gate = Gate(len(TASKS))

    def script(request: ScriptedRequest) -> Any:
        if is_first_of_agent(request):
            gate.wait()
        return harbour.script(request)

    ended: list[int] = []
    threads: set[int] = set()

    def tell(result: SampleResult[ACEStepContext]) -> None:
        threads.add(threading.get_ident())
        ended.append(result.index)

    async def main(server: ScriptedServer) -> None:
        runner = LangChain.from_model(
            agent_of(chat_model(server)), ace_llm=LangChainLLMClient(chat_model(server)), check_key=False
        )
        results, _ = await asyncio.gather(
            runner.arun(TASKS, workers=len(TASKS), on_sample_done=tell, on_sample_end=tell), gate.open()
        )
        assert [trace_of(result)["question"] for result in results] == TASKS
        assert [skill.content for skill in runner.skillbook.skills()] == [harbour.RULE]

    with ScriptedServer(script) as server:
        asyncio.run(main(server), debug=True)
    assert sorted(ended) == sorted([*range(len(TASKS))] * 2)
    assert threads == {threading.get_ident()}


def test_a_cancelled_task_ends_the_agents_and_nothing_is_learned() -> None:
    gate = Gate(3)
    cleaned_up: list[str] = []

    def script(request: ScriptedRequest) -> Any:
        gate.wait()
        return harbour.script(request)

    async def main(server: ScriptedServer) -> None:
        agent = agent_of(chat_model(server))

        async def asking(question: str) -> Any:
            try:
                return await agent.ainvoke({"messages": [("user", question)]})
            finally:
                cleaned_up.append(question)

        waiting: Any = RunnableLambda(asking)
        runner = LangChain.from_model(waiting, ace_llm=LangChainLLMClient(chat_model(server)), check_key=False)
        runner.skillbook.add_skill("tides", "Look twice.")
        task = asyncio.create_task(runner.arun(TASKS, workers=3))
        await gate.filled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.is_open.set()
        assert len(cleaned_up) == 3
        assert [skill.content for skill in runner.skillbook.skills()] == ["Look twice."]
        assert runner.learning_stats["active"] == runner.learning_stats["queued"] == 0

    with ScriptedServer(script) as server:
        asyncio.run(main(server))
        assert not server.by_role("reflector")
