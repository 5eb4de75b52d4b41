"""Calls of models from asynchronous code: retries, fallbacks, account, record and events are as from plain code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ace.calls import CallScope, RecordedAnswers, answer_budget, call_scope
from ace.outputs import SkillTag
from ace.protocols import LLMAuthenticationError, LLMCallError, LLMResponse, UnusableAnswerError
from ace.protocols.observers import Event, ModelCalled, observing
from ace.providers import InstructorClient, LiteLLMClient, wrap_with_instructor
from tests.support.clients import client_for
from tests.support.scripted_server import (
    Answer,
    BrokenBody,
    HttpError,
    NoResponse,
    Reply,
    Reset,
    ScriptedRequest,
    ScriptedServer,
    in_turn,
)

pytestmark = pytest.mark.usefixtures("each_transport")

TAG = {"id": "maths-00001", "tag": "helpful"}


def answer_of(call: Callable[[], Awaitable[LLMResponse]]) -> LLMResponse:
    async def main() -> LLMResponse:
        return await call()

    return asyncio.run(main())


def test_an_answer_has_its_text_and_usage() -> None:
    with ScriptedServer(lambda request: f"you said {request.messages[-1]['content']}") as server:
        client = client_for(server)
        response = answer_of(lambda: client.acomplete("hello there", system="be kind"))
        assert response.text == "you said hello there"
        assert [message["role"] for message in server.requests[0].messages] == ["system", "user"]
        assert (response.usage.input_tokens, response.usage.output_tokens) == (4, 4)
        assert client.usage == response.usage


def test_one_client_serves_plain_code_and_several_event_loops() -> None:
    with ScriptedServer(in_turn("ok")) as server:
        client = client_for(server)
        for _ in range(3):
            assert answer_of(lambda: client.acomplete("x")).text == "ok"
            assert client.complete("x").text == "ok"
        assert client.usage.calls == len(server.requests) == 6


@pytest.mark.parametrize("fault", [HttpError(429), HttpError(503), Reset(), NoResponse(8.0), BrokenBody()], ids=repr)
def test_what_may_pass_is_retried(fault: Reply) -> None:
    with ScriptedServer(in_turn(fault, fault, "done")) as server:
        # A short timeout would also end answers that a busy machine gives late.
        client = client_for(server, timeout=2.0 if isinstance(fault, NoResponse) else 30.0)
        assert answer_of(lambda: client.acomplete("x")).text == "done"
        assert (client.usage.calls, client.usage.failed_requests) == (1, len(server.requests) - 1)
        # A busy machine may give the last answer too late for the short timeout.
        assert len(server.requests) == 3 or (len(server.requests) > 3 and isinstance(fault, NoResponse))


@pytest.mark.parametrize(("status", "kind"), [(400, LLMCallError), (401, LLMAuthenticationError)])
def test_other_client_errors_fail_at_once(status: int, kind: type[LLMCallError]) -> None:
    with ScriptedServer(in_turn(HttpError(status, "no good"), "never")) as server:
        with pytest.raises(kind, match="no good") as raised:
            answer_of(lambda: client_for(server).acomplete("x"))
        assert (len(server.requests), raised.value.status_code) == (1, status)


def test_fallbacks_are_taken_in_turn() -> None:
    def script(request: ScriptedRequest) -> Reply | str:
        return {"first": HttpError(500), "second": HttpError(404)}.get(request.model, "from the third")

    with ScriptedServer(script) as server:
        client = client_for(server, model="openai/first", fallbacks=["openai/second", "openai/third"], max_retries=1)
        assert answer_of(lambda: client.acomplete("x")).text == "from the third"
        assert [request.model for request in server.requests] == ["first", "first", "second", "third"]


def test_requests_are_made_side_by_side() -> None:
    with ScriptedServer(lambda request: Answer(request.messages[-1]["content"], delay=0.2)) as server:
        client = client_for(server)

        async def main() -> list[str]:
            return [answer.text for answer in await asyncio.gather(*(client.acomplete(str(n)) for n in range(20)))]

        assert asyncio.run(main()) == [str(number) for number in range(20)]
        assert client.usage.calls == 20


def test_a_cancelled_call_ends_its_request() -> None:
    with ScriptedServer(in_turn(NoResponse(5.0))) as server:
        client = client_for(server)

        async def main() -> None:
            call = asyncio.create_task(client.acomplete("x"))
            while not server.requests:  # noqa: ASYNC110  # the server is another thread
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        asyncio.run(main())
        assert len(server.requests) == 1


@pytest.fixture(params=["litellm", "instructor", "instructor with tools"])
def wrap(request: pytest.FixtureRequest) -> Callable[[LiteLLMClient], LiteLLMClient | InstructorClient]:
    if request.param == "litellm":
        return lambda client: client
    mode = "TOOLS" if request.param.endswith("tools") else "MD_JSON"
    return lambda client: wrap_with_instructor(client, mode=mode)


Wrap = Callable[[LiteLLMClient], LiteLLMClient | InstructorClient]


def test_a_structured_answer_that_does_not_validate_is_asked_for_again(wrap: Wrap) -> None:
    with ScriptedServer(in_turn({"id": "maths-00001"}, TAG)) as server:
        client = wrap(client_for(server))
        assert asyncio.run(client.acomplete_structured("x", SkillTag)).model_dump() == TAG
        assert len(server.requests) == 2
        assert "Field required" in server.requests[1].text


def test_structured_answers_count_against_the_budget(wrap: Wrap) -> None:
    with ScriptedServer(in_turn("no JSON")) as server:
        client = wrap(client_for(server, validation_retries=50))

        async def main() -> None:
            with answer_budget(2) as budget:
                try:
                    await client.acomplete_structured("x", SkillTag)
                finally:
                    assert budget.answers == ["no JSON", "no JSON"]

        with pytest.raises(UnusableAnswerError):
            asyncio.run(main())


def test_the_transport_error_of_a_structured_call_is_raised_as_it_is(wrap: Wrap) -> None:
    with ScriptedServer(in_turn(HttpError(400, "no good"))) as server, pytest.raises(LLMCallError, match="no good"):
        asyncio.run(wrap(client_for(server)).acomplete_structured("x", SkillTag))


class Memory(dict[str, str]):
    """Answers that a store would keep."""

    def recorded_answer(self, key: str) -> str | None:
        return self.get(key)

    def record_answer(self, key: str, answer: str, at: str, details: object = None) -> str:
        return self.setdefault(key, answer)


def test_answers_are_recorded_and_reported_as_from_plain_code() -> None:
    memory = Memory()
    key = ("run", 1, "trace", 0, "Reflector")

    def scope() -> CallScope:
        return CallScope(run_id="run", trace_id="t", role="Reflector", answers=RecordedAnswers(memory, key))

    events: list[ModelCalled] = []

    def keep(event: Event) -> None:
        if isinstance(event, ModelCalled):
            events.append(event)

    with ScriptedServer(in_turn("first")) as server:
        client = client_for(server)
        with observing(keep):
            with call_scope(scope()):
                assert answer_of(lambda: client.acomplete("x")).text == "first"
            with call_scope(scope()):
                assert client.complete("x").text == "first"
            with call_scope(scope()):
                assert answer_of(lambda: client.acomplete("x")).text == "first"
        assert len(server.requests) == len(memory) == 1
    assert [event.recorded for event in events] == [False, True, True]
    assert {(event.run_id, event.trace_id, event.role) for event in events} == {("run", "t", "Reflector")}


def test_a_client_may_lack_async_methods_or_have_only_those() -> None:
    class Plain:
        def complete(self, prompt: str, **kwargs: object) -> LLMResponse:
            return LLMResponse('{"id": "plain-00001", "tag": "helpful"}')

        def complete_structured(self, prompt: str, response_model: type, **kwargs: object) -> object:
            raise AssertionError("instructor asks for texts")

    class Async:
        async def complete(self, prompt: str, **kwargs: object) -> LLMResponse:
            await asyncio.sleep(0)
            return LLMResponse('{"id": "async-00001", "tag": "helpful"}')

        async def complete_structured(self, prompt: str, response_model: type, **kwargs: object) -> object:
            raise AssertionError("instructor asks for texts")

    clients: dict[str, Any] = {"plain-00001": Plain(), "async-00001": Async()}
    for skill_id, inner in clients.items():
        client = wrap_with_instructor(inner)
        assert asyncio.run(client.acomplete_structured("x", SkillTag)).id == skill_id
        assert client.complete_structured("x", SkillTag).id == skill_id
        assert skill_id in client.complete("x").text
