"""Any chat model of LangChain answers for the roles, and its usage is counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from ace import Reflector
from ace.calls import answer_budget
from ace.outputs import ReflectorOutput, SkillTag
from ace.protocols import LLMAuthenticationError, LLMCallError, LLMClientLike, UnusableAnswerError, Usage
from ace.protocols.observers import Event, ModelCalled, observing
from ace.runners import ACE
from ace_langchain import LangChainLiteLLMClient, LangChainLLMClient
from tests.langchain.models import in_turn
from tests.support.role_inputs import ANSWER, REFLECTION, book_with
from tests.support.scripted_server import Answer, Dripping, HttpError, ScriptedRequest, ScriptedServer
from tests.support.scripted_server import in_turn as served_in_turn

TAG = '{"id": "a-00001", "tag": "helpful"}'


def openai(server: ScriptedServer, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model="scripted", base_url=server.api_base, max_retries=0, **{"api_key": "sk-0123", **settings})


def test_a_fake_of_langchain_answers_and_is_counted() -> None:
    client = LangChainLLMClient(in_turn("4", AIMessage("5")))
    assert isinstance(client, LLMClientLike)
    assert LangChainLiteLLMClient is LangChainLLMClient
    first = client.complete("2+2?", system="Count.")
    assert (first.text, first.usage) == ("4", Usage(calls=1, input_tokens=7, output_tokens=3, unpriced_calls=1))
    client.complete("2+3?")
    assert client.usage == Usage(calls=2, input_tokens=7, output_tokens=3, unpriced_calls=2, unreported_calls=1)
    assert repr(client) == "LangChainLLMClient('ComputedModel')"


def test_settings_of_a_call_reach_the_server() -> None:
    with ScriptedServer(lambda request: request.text.upper()) as server:
        client = LangChainLLMClient(openai(server))
        response = client.complete("ebb", system="flood", temperature=0.5, stop=["x"])
        (request,) = server.requests
        assert (response.text, response.finish_reason) == ("FLOOD\nEBB", "stop")
        assert [message["role"] for message in request.messages] == ["system", "user"]
        assert (request.body["temperature"], request.body["stop"]) == (0.5, ["x"])
        assert (client.usage.input_tokens, client.usage.output_tokens) == (server.input_tokens, server.output_tokens)
        assert client.model == "scripted"


@pytest.mark.parametrize("structured", ["prompt", "model"])
def test_structured_answers(structured: Any) -> None:
    def script(request: ScriptedRequest) -> str:
        return "I think so." if len(request.messages) == 1 and request.number == 1 else TAG

    with ScriptedServer(script) as server:
        client = LangChainLLMClient(openai(server), structured=structured)
        assert client.complete_structured("Tag a-00001.", SkillTag) == SkillTag(id="a-00001", tag="helpful")
        first, second = server.requests
        assert ("response_format" in first.body) == (structured == "model")
        assert "I think so." in second.text
        assert client.usage.calls == 2


@pytest.mark.parametrize("structured", ["prompt", "model"])
def test_observers_are_told_of_each_answer(structured: Any) -> None:
    events: list[Event] = []
    with ScriptedServer(served_in_turn("I think so.", TAG)) as server, observing(events.append):
        LangChainLLMClient(openai(server), structured=structured).complete_structured("Tag a-00001.", SkillTag)
    calls = [event for event in events if isinstance(event, ModelCalled)]
    assert [(call.model, call.cost, call.recorded) for call in calls] == [("scripted", None, False)] * 2
    assert sum(call.input_tokens for call in calls) == server.input_tokens
    assert all(call.seconds > 0 for call in calls)
    assert [(call.finish_reason, call.answer) for call in calls] == [("stop", "I think so."), ("stop", TAG)]
    assert "Tag a-00001." in str(calls[0].prompt) and "I think so." in str(calls[1].prompt)


def test_an_answer_that_was_cut_off_is_reported_as_such() -> None:
    events: list[Event] = []
    with ScriptedServer(lambda _: Answer("cut", finish_reason="length")) as server, observing(events.append):
        assert LangChainLLMClient(openai(server)).complete("Tell a story.").finish_reason == "length"
    assert [event.finish_reason for event in events if isinstance(event, ModelCalled)] == ["length"]


@pytest.mark.parametrize("structured", ["prompt", "model"])
def test_answers_that_never_validate_are_all_kept_and_share_the_budget(structured: Any) -> None:
    with ScriptedServer(served_in_turn("one", "two", "three", "four")) as server:
        client = LangChainLLMClient(openai(server), structured=structured)
        with pytest.raises(UnusableAnswerError) as raised:
            client.complete_structured("Tag.", SkillTag)
        assert raised.value.raw_answers == ("one", "two", "three")
    with ScriptedServer(served_in_turn("one", "two", "three", "four")) as server:
        client = LangChainLLMClient(openai(server), structured=structured, validation_retries=9)
        with answer_budget(2) as budget, pytest.raises(UnusableAnswerError):
            client.complete_structured("Tag.", SkillTag)
        assert budget.answers == ["one", "two"]


@pytest.mark.parametrize("structured", ["prompt", "model"])
def test_a_role_works_with_it(structured: Any) -> None:
    with ScriptedServer(lambda request: REFLECTION) as server:
        reflector = Reflector(LangChainLLMClient(openai(server), structured=structured))
        output = reflector.reflect("2+2?", ANSWER, book_with("Count."), feedback="Right.")
    assert isinstance(output, ReflectorOutput)
    assert output.key_insight == "k"
    assert output.raw


def test_what_the_server_refuses() -> None:
    with ScriptedServer(
        served_in_turn(HttpError(401, "bad key"), HttpError(500, "down"), HttpError(500, "down"))
    ) as server:
        client = LangChainLLMClient(openai(server))
        with pytest.raises(LLMAuthenticationError, match=r"the key is missing or was refused.*bad key") as refused:
            client.complete("2+2?")
        assert refused.value.status_code == 401
        with pytest.raises(LLMCallError, match=r"model 'scripted' gave no answer: .*down") as failed:
            client.complete_structured("2+2?", SkillTag)
        assert failed.value.status_code == 500
        assert client.usage == Usage(failed_requests=2)


def test_a_model_string_of_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    with ScriptedServer(lambda request: "4") as server:
        client = LangChainLLMClient("openai:gpt-4o-mini", base_url=server.api_base, max_tokens=9)
        assert client.complete("2+2?").text == "4"
        assert server.requests[0].body["max_completion_tokens"] == 9
        assert (client.model, client.input_token_limit) == ("gpt-4o-mini", 128_000)


def test_the_prefix_makes_a_client_of_any_runner() -> None:
    runner = ACE.from_model("langchain/openai:gpt-4o-mini", api_key="sk-0123456789", max_tokens=9)
    agent: Any = runner.pipeline.steps[0]
    assert isinstance(agent.agent.llm, LangChainLLMClient)


def test_a_wrong_use_is_told() -> None:
    wrong: Any = 7
    with pytest.raises(TypeError, match="a int is not a chat model"):
        LangChainLLMClient(wrong)
    with pytest.raises(TypeError, match="already has its settings; remove these: temperature"):
        LangChainLLMClient(in_turn(), temperature=0.5)
    with pytest.raises(ValueError, match="structured must be 'prompt' or 'model', got 7"):
        LangChainLLMClient(in_turn(), structured=wrong)
    with pytest.raises(ValueError, match="validation_retries must not be negative"):
        LangChainLLMClient(in_turn(), validation_retries=-1)


@pytest.mark.parametrize("structured", ["prompt", "model"])
def test_it_can_be_awaited(structured: Any) -> None:
    with ScriptedServer(served_in_turn({"id": "a-00001"}, {"id": "a-00001", "tag": "helpful"}, "ebb")) as server:
        client = LangChainLLMClient(openai(server), structured=structured)

        async def main() -> None:
            assert (await client.acomplete_structured("x", SkillTag)).tag == "helpful"
            assert (await client.acomplete("x", system="flood")).text == "ebb"

        asyncio.run(main())
        assert client.usage.calls == len(server.requests) == 3


def test_a_timeout_bounds_the_whole_answer() -> None:
    with ScriptedServer(served_in_turn("warm", Dripping("slow", 0.1))) as server:
        model = openai(server)
        LangChainLLMClient(model).complete("x")
        client = LangChainLLMClient(model, timeout=0.5)
        late = r"not complete within 0\.5 s"
        with pytest.raises(LLMCallError, match=late) as raised:
            client.complete("x")
        assert raised.value.status_code == 408
        with pytest.raises(LLMCallError, match=late):
            asyncio.run(client.acomplete("x"))
        assert client.usage.failed_requests == 2
    with pytest.raises(ValueError, match="timeout must be greater than 0 seconds, got 0"):
        LangChainLLMClient(in_turn("4"), timeout=0)
