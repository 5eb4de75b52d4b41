"""Roles asked from asynchronous code: the same answers, and no thread that waits for them."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from ace.outputs import AgentOutput, ReflectorOutput
from ace.protocols import LLMCallError, LLMClientLike, LLMResponse, RoleError, UnusableAnswerError
from ace.roles import Agent, Reflector, SkillManager
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.role_inputs import ANSWER, REFLECTION, update
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer, in_turn

AT_ONCE = 300


def waiting_threads() -> set[str]:
    """Return the threads that are not the scripted server's."""
    return {thread.name for thread in threading.enumerate() if "process_request_thread" not in thread.name}


def test_hundreds_of_questions_wait_at_once_without_a_thread_each() -> None:
    everyone = threading.Barrier(AT_ONCE)

    def script(request: ScriptedRequest) -> dict[str, str]:
        everyone.wait(60)  # no question is answered before all have been asked
        asked = next(word for word in request.text.split() if word.startswith("number-"))
        return {"reasoning": "", "final_answer": asked}

    threads: set[str] = set()

    async def main(agent: Agent) -> list[AgentOutput]:
        async def watch() -> None:
            while True:
                threads.update(waiting_threads())
                await asyncio.sleep(0.02)

        watcher = asyncio.create_task(watch())
        book = Skillbook()
        asked = [agent.agenerate(f"number-{place} ?", "", book) for place in range(AT_ONCE)]
        try:
            return await asyncio.gather(*asked)
        finally:
            watcher.cancel()

    with ScriptedServer(script) as server:
        client = client_for(server, timeout=120.0)
        before = waiting_threads()
        outputs = asyncio.run(main(Agent(client)))
        assert [output.final_answer for output in outputs] == [f"number-{place}" for place in range(AT_ONCE)]
        assert client.usage.calls == AT_ONCE
    # Those that asyncio and litellm keep for all requests together; the number of questions does not matter.
    assert len(threads - before) < 40


def test_the_three_roles_give_the_same_from_asynchronous_code() -> None:
    book = Skillbook()
    book.add_skill("maths", "Check the units.", "maths-00001")

    def script(request: ScriptedRequest) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = {
            "agent": {"reasoning": "By [maths-00001].", "final_answer": "4 m"},
            "reflector": REFLECTION,
            "skill_manager": update({"type": "ADD", "section": "maths", "content": "Name the unit."}),
        }
        return answers[request.role]

    with ScriptedServer(script) as server:
        client = client_for(server)
        agent, reflector, skill_manager = Agent(client), Reflector(client), SkillManager(client)
        reflection = ReflectorOutput.model_validate(REFLECTION)

        async def main() -> list[Any]:
            return [
                await agent.agenerate("2+2?", "", book),
                await reflector.areflect("2+2?", ANSWER, book, trace={"a": 1}),
                await skill_manager.aupdate_skills(reflection, book),
            ]

        from_loop = asyncio.run(main())
        asked = [request.text for request in server.requests]
        server.clear()
        plain = [
            agent.generate("2+2?", "", book),
            reflector.reflect("2+2?", ANSWER, book, trace={"a": 1}),
            skill_manager.update_skills(reflection, book),
        ]
        assert from_loop == plain
        assert asked == [request.text for request in server.requests]


def test_plain_calls_work_where_an_event_loop_runs() -> None:
    with ScriptedServer(in_turn({"reasoning": "", "final_answer": "4"})) as server:
        agent = Agent(client_for(server))

        async def main() -> AgentOutput:
            return agent.generate("2+2?", "", Skillbook())

        assert asyncio.run(main()).final_answer == "4"


def test_bad_answers_and_lost_calls_are_as_in_plain_code() -> None:
    with ScriptedServer(in_turn({"reasoning": "hm", "final_answer": " "})) as server:
        with pytest.raises(UnusableAnswerError, match="final_answer is empty") as unusable:
            asyncio.run(Agent(client_for(server)).agenerate("q", "", Skillbook()))
        assert len(unusable.value.raw_answers) == len(server.requests) == 4
        assert unusable.value.role == "Agent"
    with ScriptedServer(in_turn(HttpError(400, "no good"))) as server:
        with pytest.raises(LLMCallError, match="no good") as lost:
            asyncio.run(Reflector(client_for(server)).areflect("q", ANSWER, Skillbook()))
        assert lost.value.role == "Reflector"


class AsyncClient:
    """A client whose only methods are asynchronous."""

    async def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise AssertionError("roles ask for structured answers")

    async def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return response_model(reasoning="", final_answer=threading.current_thread().name)


class PlainClient:
    """A client without asynchronous methods."""

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise AssertionError("roles ask for structured answers")

    def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
        return response_model(reasoning="", final_answer=threading.current_thread().name)


def test_an_asynchronous_client_serves_both() -> None:
    client: Any = AsyncClient()
    here = threading.current_thread().name
    assert asyncio.run(Agent(client).agenerate("q", "", Skillbook())).final_answer == here
    assert Agent(client).generate("q", "", Skillbook()).final_answer != here


def test_a_plain_client_does_not_block_the_loop() -> None:
    client: LLMClientLike = PlainClient()
    here = threading.current_thread().name
    assert asyncio.run(Agent(client).agenerate("q", "", Skillbook())).final_answer != here
    assert Agent(client).generate("q", "", Skillbook()).final_answer == here


def test_a_client_that_returns_something_else_is_named() -> None:
    class Texts(PlainClient):
        def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
            return json.dumps({"reasoning": "", "final_answer": "4"})

    with pytest.raises(RoleError, match=r"the client: Texts\.complete_structured\(\) returned a str.*an AgentOutput"):
        Agent(Texts()).generate("q", "", Skillbook())
