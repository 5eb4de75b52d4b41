"""`RRStep` takes every client that a role takes: only the methods matter, not the classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ace import LiteLLMClient
from ace.outputs import AgentOutput
from ace.providers import wrap_with_instructor
from ace.rr import RRConfig, RRStep
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.reflection_script import LOOK, REFLECTION, TRACE, Explorer, python, submit
from tests.support.scripted_server import ScriptedServer

pytest.importorskip("pydantic_monty")


@dataclass
class Response:
    """The response class of a program that does not know ours."""

    text: str
    raw: dict[str, Any] | None = None


@dataclass
class Client:
    """A client with the two methods of `LLMClientLike` only, and with its own response class."""

    answers: list[str]
    prompts: list[str] = field(default_factory=list)

    def complete(self, prompt: str, **kwargs: Any) -> Response:
        self.prompts.append(prompt)
        return Response(self.answers.pop(0))

    def complete_structured(self, prompt: str, response_model: type, **kwargs: Any) -> object:
        raise AssertionError("the recursive reflector asks for texts")


def key_insight(step: RRStep) -> str:
    output = AgentOutput(reasoning="", final_answer="9 m")
    return step.reflect("How tall?", output, Skillbook(), feedback="Wrong: it is 30 m.", trace=TRACE).key_insight


def test_a_client_without_messages_gets_the_conversation_as_one_prompt() -> None:
    client = Client([LOOK, submit()])
    assert key_insight(RRStep(client)) == REFLECTION["key_insight"]
    first, second = client.prompts
    assert "[Iteration 1/20]" in first and "## Assistant" not in first
    assert second.index("## User\n\n[Iteration 1/20]") < second.index(f"## Assistant\n\n{LOOK}")
    assert second.index("## Assistant") < second.index("## User\n\n[Iteration 2/20]\nOutput:")


def test_it_answers_sub_questions_too() -> None:
    client = Client([python("print(ask_llm('Which unit?', 'feet'))"), submit()])
    sub = Client(["Feet."])
    assert key_insight(RRStep(client, RRConfig(), None, sub)) == REFLECTION["key_insight"]
    assert "Which unit?" in sub.prompts[0]
    assert "Feet." in client.prompts[1]


def test_our_client_in_instructor() -> None:
    with ScriptedServer(Explorer([LOOK, submit()])) as server:
        client = wrap_with_instructor(client_for(server))
        assert isinstance(client.client, LiteLLMClient)
        assert key_insight(RRStep(client)) == REFLECTION["key_insight"]
        assert [len(request.messages) for request in server.requests] == [2, 4], "the turns were sent as messages"


def test_a_foreign_client_in_instructor() -> None:
    client = wrap_with_instructor(Client([LOOK, submit()]))  # type: ignore[arg-type]  # its own class
    assert client.complete_messages([{"role": "user", "content": "Look."}]).text == LOOK
    client.client.answers.insert(0, LOOK)  # type: ignore[union-attr]
    assert key_insight(RRStep(client)) == REFLECTION["key_insight"]
