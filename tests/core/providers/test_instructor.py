"""`InstructorClient` over the real client and a real server."""

from __future__ import annotations

from typing import Any

import pytest

from ace.calls import answer_budget
from ace.outputs import AgentOutput, SkillManagerOutput
from ace.protocols import LLMCallError, LLMClientLike, LLMResponse, UnusableAnswerError
from ace.providers import wrap_with_instructor
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer, in_turn

pytestmark = pytest.mark.usefixtures("each_transport")

GOOD = {"reasoning": "because", "final_answer": "42"}


@pytest.mark.parametrize("mode", ["MD_JSON", "JSON", "JSON_SCHEMA", "TOOLS", "tools"])
def test_every_mode_gives_the_answer_and_shows_errors_to_the_model(mode: str) -> None:
    def script(request: ScriptedRequest) -> dict[str, str]:
        return GOOD if "final_answer" in _after_first_message(request) else {"reasoning": "because"}

    with ScriptedServer(script) as server:
        client = wrap_with_instructor(client_for(server), mode=mode)
        output = client.complete_structured("What is it?", AgentOutput, system="be kind")
        assert (output.final_answer, output.raw) == ("42", GOOD)
        assert isinstance(output, AgentOutput)
        assert len(server.requests) == client.usage.calls == 2
        assert client.usage.input_tokens == server.input_tokens
        assert "What is it?" in server.requests[0].text
        assert "be kind" in server.requests[0].text


def test_updates_come_in_the_flat_shape() -> None:
    flat = {"reasoning": "r", "operations": [{"type": "REMOVE", "skill_id": "a-00001"}]}
    with ScriptedServer(in_turn(flat)) as server:
        output = wrap_with_instructor(client_for(server)).complete_structured("x", SkillManagerOutput)
        assert output.update.operations[0].skill_id == "a-00001"


def test_when_nothing_validates_the_error_carries_every_raw_answer() -> None:
    with ScriptedServer(in_turn("one", "", "three")) as server:
        client = wrap_with_instructor(client_for(server), max_retries=2)
        with pytest.raises(UnusableAnswerError) as raised:
            client.complete_structured("x", AgentOutput)
        assert raised.value.raw_answers == ("one", "", "three")
        assert len(server.requests) == 3


def test_transport_stays_with_the_wrapped_client() -> None:
    with ScriptedServer(in_turn(HttpError(500), GOOD)) as server:
        assert wrap_with_instructor(client_for(server)).complete_structured("x", AgentOutput).raw == GOOD
    with ScriptedServer(in_turn(HttpError(400, "no good"))) as server:
        with pytest.raises(LLMCallError, match="no good"):
            wrap_with_instructor(client_for(server)).complete_structured("x", AgentOutput)
        assert len(server.requests) == 1


def test_a_budget_bounds_the_answers() -> None:
    with ScriptedServer(in_turn("never any JSON")) as server:
        client = wrap_with_instructor(client_for(server), max_retries=10)
        with answer_budget(3), pytest.raises(UnusableAnswerError):
            client.complete_structured("x", AgentOutput)
        assert len(server.requests) == 3


def test_any_client_can_be_wrapped() -> None:
    class Simple:
        def __init__(self) -> None:
            self.prompts: list[str] = []

        def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
            self.prompts.append(prompt)
            done = "final_answer\n  Field required" in prompt
            return LLMResponse('{"reasoning": "r", "final_answer": "1"}' if done else '{"reasoning": "r"}')

        def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
            raise AssertionError("instructor does this")

    simple = Simple()
    client = wrap_with_instructor(simple)
    assert isinstance(client, LLMClientLike)
    assert client.complete_structured("x", AgentOutput).final_answer == "1"
    assert len(simple.prompts) == 2
    assert client.usage.calls == 0


def test_an_unknown_mode_names_the_known_ones() -> None:
    with ScriptedServer(in_turn(GOOD)) as server:
        client = wrap_with_instructor(client_for(server), mode="nonsense")
        with pytest.raises(ValueError, match=r"no mode 'NONSENSE'; it has .*MD_JSON"):
            client.complete_structured("x", AgentOutput)


def _after_first_message(request: ScriptedRequest) -> str:
    asked = [str(message) for message in request.messages if message["role"] in ("user", "tool")]
    return "".join(asked[1:])
