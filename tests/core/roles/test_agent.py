"""The Agent with the real client and a server whose answers depend on the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from ace.protocols import (
    LLMClientLike,
)
from ace.roles import Agent, SmallModelAgent
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.role_inputs import book_with
from tests.support.scripted_server import ScriptedRequest, ScriptedServer, in_turn


def test_the_agent_uses_the_skills_it_sees(wrap: Callable[[LLMClientLike], LLMClientLike]) -> None:
    def script(request: ScriptedRequest) -> dict[str, str]:
        if "Carry the one." in request.text:
            return {"reasoning": "I carry, see [maths-00001] and [gone-00009].", "final_answer": "12"}
        return {"reasoning": "no idea", "final_answer": "?"}

    with ScriptedServer(script) as server:
        agent = Agent(wrap(client_for(server)))
        assert agent.generate("5+7?", "", Skillbook()).final_answer == "?"
        output = agent.generate("5+7?", "some context", book_with("Carry the one."), reflection="try harder")
        assert (output.final_answer, output.skill_ids) == ("12", ["maths-00001"])
        text = server.requests[-1].text
        for part in ("5+7?", "some context", "try harder", datetime.now().astimezone().date().isoformat()):
            assert part in text


def test_cited_skills_with_ids_of_any_kind() -> None:
    book = book_with("One.")
    book.add_skill("x", "Two.", skill_id="my.own/id")
    answer = {"reasoning": "[my.own/id] then maths-00001, [nothing] [my.own/id]", "final_answer": "1"}
    with ScriptedServer(in_turn(answer)) as server:
        assert Agent(client_for(server)).generate("?", "", book).skill_ids == ["my.own/id", "maths-00001"]


def test_a_book_too_large_for_a_prompt_is_sent_in_part() -> None:
    book = Skillbook()
    for number in range(3000):
        book.add_skill("filler", f"Filler number {number} that nobody asked for.")
    book.add_skill("zebras", "Zebra stripes are counted from the left.")
    with ScriptedServer(in_turn({"reasoning": "", "final_answer": "1"})) as server:
        Agent(client_for(server)).generate("How are zebra stripes counted?", "", book)
        text = server.requests[0].text
        assert "Zebra stripes are counted from the left." in text
        assert len(text) < 100_000


@pytest.mark.parametrize(
    ("question", "context", "said"),
    [
        (None, None, "question must be a str, got None"),
        (5, "", "question must be a str, got 5"),
        ("?", {"a": 1}, "context must be a str, got {'a': 1}"),
    ],
)
def test_what_is_not_text_is_an_error_that_names_the_argument(question: Any, context: Any, said: str) -> None:
    with ScriptedServer(in_turn({"reasoning": "", "final_answer": "1"})) as server:
        for agent in (Agent(client_for(server)), SmallModelAgent(client_for(server))):
            with pytest.raises(TypeError) as blocking:
                agent.generate(question, context, Skillbook())
            with pytest.raises(TypeError) as on_loop:
                asyncio.run(agent.agenerate(question, context, Skillbook()))
            assert str(blocking.value) == str(on_loop.value) == said
        assert server.requests == []
