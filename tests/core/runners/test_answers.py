"""`Answer`: what `ask` returns, and how feedback finds the question that it is about."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ace.outputs import AgentOutput
from ace.runners import ACELiteLLM, Answer
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

BOAT = "What is the secret of boat?"
USERS = 24


def test_an_answer_is_a_text_that_knows_how_it_came_about() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        skill = ace.skillbook.add_skill("secrets", "The secret of boat is value-of-boat.")
        first, second = ace.ask(BOAT), ace.ask("What is the secret of sail?")
    assert first == "value-of-boat" and isinstance(first, Answer)
    assert first.skill_ids == (skill.id,) and second.skill_ids == ()
    assert first.reasoning == f"[{skill.id}] tells it." and first.question == BOAT
    assert first.id and first.id != second.id
    assert first.usage.calls == 1 and first.usage.output_tokens > 0
    assert ace.agent.llm.usage.calls == 2  # type: ignore[attr-defined]  # the agent of the facade has a client


def test_feedback_belongs_to_the_answer_that_is_given() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        boat = ace.ask(BOAT)
        ace.ask("What is the secret of sail?")
        assert ace.learn_from_feedback("wrong", "value-of-boat", answer=boat) is True
        [reflected] = server.by_role("reflector")
    assert "secret of boat" in reflected.text and "secret of sail" not in reflected.text
    assert [skill.content for skill in ace.skillbook.skills()] == ["The secret of boat is value-of-boat."]


def test_an_answer_survives_the_store_of_a_service() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        kept = pickle.dumps(ace.ask(BOAT))
        again = pickle.loads(kept)
        assert ACELiteLLM(client_for(server), skillbook=ace.skillbook).learn_from_feedback(
            "wrong", "value-of-boat", answer=again
        )
    assert len(ace.skillbook) == 1


def test_feedback_on_a_mere_text_is_refused() -> None:
    ace: Any = ACELiteLLM(client_for(ScriptedServer(secrets_world.answer)))
    with pytest.raises(TypeError, match=r"answer must be an Answer, got 'Paris'; give what ask\(\) returned"):
        ace.learn_from_feedback("wrong", answer="Paris")


def test_without_an_answer_it_is_the_last_one_of_the_thread() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        ace.ask(BOAT)
        with ThreadPoolExecutor(1) as other:
            assert other.submit(ace.learn_from_feedback, "wrong", "value-of-sail").result() is False
            other.submit(ace.ask, "What is the secret of sail?").result()
        assert ace.learn_from_feedback("wrong", "value-of-boat") is True
    assert [skill.content for skill in ace.skillbook.skills()] == ["The secret of boat is value-of-boat."]


def test_a_task_that_asked_nothing_does_not_inherit_an_answer() -> None:
    async def service(ace: ACELiteLLM) -> list[bool]:
        await ace.aask(BOAT)  # a question of the start of the service
        request = asyncio.create_task(ace.alearn_from_feedback("wrong", "value-of-boat"))
        return [await request, await ace.alearn_from_feedback("wrong", "value-of-boat")]

    with ScriptedServer(secrets_world.answer) as server:
        assert asyncio.run(service(ACELiteLLM(client_for(server)))) == [False, True]


def lessons(request: ScriptedRequest) -> Any:
    """Every reflection teaches which feedback it saw for which question."""
    pairs = re.findall(r"item (\d+)\b", request.text), re.findall(r"verdict (\d+)\b", request.text)
    if request.role == "agent":
        return {"reasoning": "No skill.", "final_answer": f"It is item {pairs[0][-1]}."}
    if request.role == "reflector":
        text = f"Items {'+'.join(sorted(set(pairs[0])))} got verdicts {'+'.join(sorted(set(pairs[1])))}."
        return {
            "reasoning": "r",
            "correct_approach": "c",
            "key_insight": "k",
            "extracted_learnings": [{"learning": text}],
        }
    learned = re.findall(r"Items [\d+]+ got verdicts [\d+]+\.", request.text)
    known = set(re.findall(r"\] (Items [\d+]+ got verdicts [\d+]+\.)", request.text))
    return {
        "reasoning": "r",
        "operations": [
            {"type": "ADD", "section": "s", "content": text} for text in dict.fromkeys(learned) if text not in known
        ],
    }


def expected_lessons() -> set[str]:
    return {f"Items {number} got verdicts {number}." for number in range(USERS)}


def learned_by(use: Callable[[ACELiteLLM], object]) -> set[str]:
    with ScriptedServer(lessons) as server:
        ace = ACELiteLLM(client_for(server), skillbook=Skillbook())
        use(ace)
        ace.wait_for_background(60)
        assert ace.failures == []
        return {skill.content for skill in ace.skillbook.skills()}


def test_many_users_in_threads_each_teach_their_own_lesson() -> None:
    all_asked = threading.Barrier(USERS)

    def user(ace: ACELiteLLM, number: int) -> bool:
        answer = ace.ask(f"What is item {number} called?")
        all_asked.wait(60)  # so every answer but one is not the last of the process
        return ace.learn_from_feedback(f"verdict {number}", answer=answer if number % 2 else None)

    def all_users(ace: ACELiteLLM) -> None:
        with ThreadPoolExecutor(USERS) as threads:
            assert all(threads.map(lambda number: user(ace, number), range(USERS)))

    assert learned_by(all_users) == expected_lessons()


def test_many_users_in_tasks_each_teach_their_own_lesson() -> None:
    async def user(ace: ACELiteLLM, number: int, everybody: Callable[[], Awaitable[None]]) -> bool:
        answer = await ace.aask(f"What is item {number} called?")
        await everybody()
        return await ace.alearn_from_feedback(f"verdict {number}", answer=answer if number % 2 else None)

    async def all_users(ace: ACELiteLLM) -> None:
        asked, event = 0, asyncio.Event()

        async def everybody() -> None:
            nonlocal asked
            asked += 1
            if asked == USERS:
                event.set()
            await event.wait()

        assert all(await asyncio.gather(*(user(ace, number, everybody) for number in range(USERS))))

    assert learned_by(lambda ace: asyncio.run(all_users(ace))) == expected_lessons()


class AsyncAgent:
    """An agent that is only asynchronous, and counts the threads while all wait."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.waiting = 0
        self.threads = 0
        self.everybody = asyncio.Event()

    async def generate(self, *, question: str, **kwargs: Any) -> AgentOutput:
        self.waiting += 1
        if self.waiting == self.expected:
            self.threads = threading.active_count()
            self.everybody.set()
        await self.everybody.wait()
        return AgentOutput(reasoning="r", final_answer=question)


def test_asks_of_an_async_agent_wait_on_the_loop_and_not_in_threads() -> None:
    async def ask_all(ace: ACELiteLLM, count: int) -> list[Answer]:
        return await asyncio.gather(*(ace.aask(f"question {number}") for number in range(count)))

    async def measured(count: int) -> int:
        agent: Any = AsyncAgent(count)
        ace = ACELiteLLM(client_for(ScriptedServer(secrets_world.answer)), agent=agent)
        assert await ask_all(ace, count) == [f"question {number}" for number in range(count)]
        return int(agent.threads)

    few, many = asyncio.run(measured(2)), asyncio.run(measured(400))
    assert many < few + 100  # a loop has up to 32 threads for everything, which begin as needed


def test_asks_of_a_real_client_take_no_thread_each() -> None:
    count, seen = 200, []
    before = threading.active_count()
    everybody = threading.Barrier(count)

    def script(request: ScriptedRequest) -> Any:
        everybody.wait(120)  # the server has a thread for each request; all of them are here now
        seen.append(threading.active_count())
        return secrets_world.answer(request)

    async def ask_all(ace: ACELiteLLM) -> list[Answer]:
        return await asyncio.gather(*(ace.aask(f"What is the secret of thing{n}?") for n in range(count)))

    with ScriptedServer(script) as server:
        ace = ACELiteLLM(client_for(server, timeout=120.0))
        assert asyncio.run(ask_all(ace)) == ["I do not know."] * count
    ours = max(seen) - before - count  # beside one of the server for each request
    assert ours < 100, f"{ours} threads for {count} questions"


def test_plain_calls_work_inside_a_running_loop() -> None:
    async def handler(ace: ACELiteLLM) -> bool:
        answer = ace.ask(BOAT)
        return answer == "I do not know." and ace.learn_from_feedback("wrong", "value-of-boat")

    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        assert asyncio.run(handler(ace)) is True
    assert len(ace.skillbook) == 1


def test_the_answer_is_imported_from_ace() -> None:
    import ace

    assert ace.Answer is Answer
