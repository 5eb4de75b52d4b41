"""Servers that refuse what others accept, and how their errors are worded."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ace.outputs import AgentOutput
from ace.protocols import ContextLimitError, LLMCallError, UnusableAnswerError
from ace.providers import LiteLLMClient
from ace.providers.server_memory import ServerMemory
from ace.providers.server_quirks import QUIRKS, Refusal, ServerProfile, reaction_to
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, BrokenBody, HttpError, Reply, ScriptedRequest, ScriptedServer

GOOD = {"reasoning": "I know.", "final_answer": "Paris"}
SYSTEM = "You are a geographer."
QUESTION = "What is the capital of France?"


@dataclass(frozen=True)
class Behaviour:
    """A server that refuses some requests."""

    refuses: Callable[[dict[str, Any]], bool]
    status: int
    error: Mapping[str, Any]
    quirk: str
    """The row of the table that decides."""

    def __call__(self, request: ScriptedRequest) -> Reply:
        return HttpError(self.status, body=self.error) if self.refuses(request.body) else Answer(GOOD)


def error(message: str, **more: object) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def has(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: name in body


def has_system(body: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def roles_repeat(body: dict[str, Any]) -> bool:
    roles = [message["role"] for message in body["messages"]]
    return roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]


def wants_longer_than(limit: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body.get("max_tokens", 0) > limit


BEHAVIOURS: Mapping[str, Behaviour] = {
    "max_tokens": Behaviour(
        has("max_tokens"),
        400,
        error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
            "instead.",
            code="unsupported_parameter",
            param="max_tokens",
        ),
        "parameter",
    ),
    "temperature": Behaviour(
        lambda body: body.get("temperature", 1) != 1,
        400,
        error(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
            "supported.",
            code="unsupported_value",
            param="temperature",
        ),
        "parameter",
    ),
    "temperature deprecated": Behaviour(
        has("temperature"), 400, error("`temperature` is deprecated for this model."), "parameter"
    ),
    "seed, by the server's validation": Behaviour(
        has("seed"),
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
        "parameter",
    ),
    "no system role": Behaviour(
        has_system,
        400,
        error("System role not supported", type="BadRequestError", code=400),
        "roles",
    ),
    "roles must alternate": Behaviour(
        roles_repeat,
        400,
        {
            "object": "error",
            "message": "Conversation roles must alternate user/assistant/user/assistant/...",
            "type": "BadRequestError",
            "code": 400,
        },
        "roles",
    ),
    "roles, by a template": Behaviour(
        has_system,
        500,
        error("Jinja Exception: Only user and assistant roles are supported!", type="server_error", code=500),
        "roles",
    ),
    "answer limit": Behaviour(
        wants_longer_than(1024),
        400,
        error("max_tokens is too large: 2048. This model supports at most 1024 completion tokens."),
        "answer limit",
    ),
    "context window, because of the answer": Behaviour(
        wants_longer_than(1024),
        400,
        error(
            "This model's maximum context length is 2048 tokens. However, you requested 2078 tokens (30 in the "
            "messages, 2048 in the completion). Please reduce the length of the messages or completion."
        ),
        "context window",
    ),
}


def plain(client: LiteLLMClient) -> str:
    return str(json.loads(client.complete(QUESTION, system=SYSTEM).text)["final_answer"])


def structured(client: LiteLLMClient) -> str:
    return client.complete_structured(QUESTION, AgentOutput, system=SYSTEM).final_answer


async def plain_on_loop(client: LiteLLMClient) -> str:
    return str(json.loads((await client.acomplete(QUESTION, system=SYSTEM)).text)["final_answer"])


async def structured_on_loop(client: LiteLLMClient) -> str:
    return (await client.acomplete_structured(QUESTION, AgentOutput, system=SYSTEM)).final_answer


CALLS: Mapping[str, Callable[[LiteLLMClient], str]] = {
    "plain": plain,
    "structured": structured,
    "plain, on a loop": lambda client: asyncio.run(plain_on_loop(client)),
    "structured, on a loop": lambda client: asyncio.run(structured_on_loop(client)),
}


@pytest.mark.usefixtures("each_transport")
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_what_a_server_refuses_is_asked_for_in_another_way_from_then_on(
    name: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedServer(BEHAVIOURS[name]) as server, caplog.at_level(logging.WARNING, "ace"):
        client = client_for(server, options={"seed": 1})
        assert CALLS[kind](client) == "Paris"
        first = len(server.requests)
        assert CALLS[kind](client) == "Paris"
        assert first == 3 if has_repeated(server) else first == 2
        assert len(server.requests) == first + 1
        assert (client.usage.calls, client.usage.failed_requests) == (2, 1)
        for text in (SYSTEM, QUESTION):
            assert text in server.requests[-1].text
    told = [record.getMessage() for record in caplog.records if "from now on" in record.getMessage()]
    assert len(told) == 1 and server.api_base in told[0]


def has_repeated(server: ScriptedServer) -> bool:
    """Whether the first two requests are the same: LiteLLM repeats one whose roles do not alternate itself."""
    first, second = (request.body for request in server.requests[:2])
    return first == second and os.environ.get("ACE_MODEL_CLIENT") == "litellm"


def test_each_row_about_errors_has_a_behaviour() -> None:
    rows = {quirk.name for quirk in QUIRKS if quirk.learn is not None}
    elsewhere = {"spent quota", "broken constraint"}
    assert {behaviour.quirk for behaviour in BEHAVIOURS.values()} == rows - elsewhere


@pytest.mark.usefixtures("each_transport")
def test_a_parameter_is_sent_under_the_name_that_the_server_advises() -> None:
    with ScriptedServer(BEHAVIOURS["max_tokens"]) as server:
        client_for(server, max_tokens=99).complete(QUESTION)
        assert server.requests[-1].body["max_completion_tokens"] == 99


@pytest.mark.usefixtures("each_transport")
def test_several_refusals_are_learned_one_after_the_other() -> None:
    refusing = [BEHAVIOURS[name] for name in ("max_tokens", "temperature deprecated", "no system role")]

    def script(request: ScriptedRequest) -> Reply:
        found = next((behaviour for behaviour in refusing if behaviour.refuses(request.body)), None)
        return found(request) if found else Answer(GOOD)

    with ScriptedServer(script) as server:
        client = client_for(server)
        assert plain(client) == structured(client) == "Paris"
        assert len(server.requests) == 5


@pytest.mark.usefixtures("each_transport")
@pytest.mark.parametrize("status", [402, 429])
def test_a_spent_quota_is_not_asked_again(status: int) -> None:
    said = "You exceeded your current quota, please check your plan and billing details."
    with ScriptedServer(lambda request: HttpError(status, said)) as server:
        with pytest.raises(LLMCallError, match="check your plan and billing details"):
            plain(client_for(server, max_retries=3))
        assert len(server.requests) == 1


@pytest.mark.usefixtures("each_transport")
def test_a_request_that_is_too_long_is_a_context_limit_and_the_window_is_known_afterwards() -> None:
    said = "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens."
    with ScriptedServer(lambda request: HttpError(400, said)) as server:
        client = client_for(server, max_tokens=512)
        limits = [client.input_token_limit]
        with pytest.raises(ContextLimitError, match="4096 tokens") as caught:
            plain(client)
        assert caught.value.concerns_one_request
        assert [*limits, client.input_token_limit] == [None, 4096 - 512]
        assert len(server.requests) == 1  # the same request would be refused again


def test_a_context_window_can_be_set() -> None:
    client = LiteLLMClient("gpt-4o-mini", context_tokens=4096)
    assert client.input_token_limit == 4096 - 1024
    with pytest.raises(ValueError, match="context_tokens"):
        LiteLLMClient("m", context_tokens=0)


def test_what_did_not_help_is_not_remembered() -> None:
    with ScriptedServer(lambda request: HttpError(400, "`temperature` is deprecated for this model.")) as server:
        client = client_for(server)
        for _ in range(2):
            with pytest.raises(LLMCallError, match="deprecated"):
                plain(client)
        assert ["temperature" in request.body for request in server.requests] == [True, False] * 2


def test_what_was_learned_is_kept_for_the_model_on_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_SERVERS", str(tmp_path))
    with ScriptedServer(BEHAVIOURS["no system role"]) as server:
        plain(client_for(server))
        plain(client_for(server))
        plain(client_for(server, model="openai/other"))
        assert [has_system(request.body) for request in server.requests] == [True, False, False, True, False]
        memory = ServerMemory("openai/scripted", server.api_base)
        assert memory.known == ServerProfile(instructions_in_user_message=True)
        assert [memory.forget(), memory.forget()] == [True, False]
        plain(client_for(server))
        assert has_system(server.requests[-2].body)


def test_what_was_learned_is_forgotten_after_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_SERVERS", str(tmp_path))
    with ScriptedServer(BEHAVIOURS["temperature"]) as server:
        plain(client_for(server))
    (path,) = tmp_path.glob("*.json")
    data = json.loads(path.read_text())
    assert (data["model"], data["address"]) == ("openai/scripted", server.api_base)
    data["learned"][0]["at"] = "2020-01-01T00:00:00+00:00"
    path.write_text(json.dumps(data))
    assert ServerMemory("openai/scripted", server.api_base).known == ServerProfile()


def test_what_several_processes_learn_at_once_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_SERVERS", str(tmp_path))
    row = {quirk.name: quirk for quirk in QUIRKS}
    one, other = (ServerMemory("openai/m", "http://localhost:1/v1") for _ in range(2))
    assert one.known == other.known == ServerProfile()
    one.learn([(row["parameter"], ServerProfile(omitted=frozenset({"seed"})))])
    other.learn([(row["roles"], ServerProfile(instructions_in_user_message=True))])
    kept = ServerMemory("openai/m", "http://localhost:1/v1/").known
    assert kept == ServerProfile(omitted=frozenset({"seed"}), instructions_in_user_message=True)


def test_an_error_in_an_answer_with_status_200_is_read() -> None:
    said = "Trying to keep the first 14538 tokens when context the overflows. However, the model is loaded with "
    body = json.dumps({"error": f"{said}context length of only 4096 tokens, which is not enough."})
    with ScriptedServer(lambda request: BrokenBody(body)) as server:
        client = client_for(server, max_tokens=512)
        with pytest.raises(ContextLimitError, match="4096"):
            plain(client)
        assert client.input_token_limit == 4096 - 512
        assert len(server.requests) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"learned": 1}', '{"learned": [{"quirk": "roles", "at": 1}]}'])
def test_a_file_that_cannot_be_read_is_not_used(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_SERVERS", str(tmp_path))
    memory = ServerMemory("openai/m", None)
    assert memory.path is not None
    memory.path.write_text(text)
    assert memory.lessons == ()


REQUEST: Mapping[str, Any] = {
    "model": "openai/m",
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
    "max_tokens": 2048,
    "temperature": 0.0,
    "seed": 1,
    "stop": ["END"],
    "top_p": 0.5,
    "response_format": {"type": "json_schema"},
}


def test_the_wordings_of_many_servers_are_understood() -> None:
    lines = Path(__file__).with_name("refusals.jsonl").read_text("utf-8").splitlines()
    wordings = [json.loads(line) for line in lines]
    found = []
    for wording in wordings:
        reaction = reaction_to(Refusal(400, wording["error"], REQUEST))
        found.append({"error": wording["error"], "learned": None if reaction is None else reaction.change.to_dict()})
    assert found == wordings


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "model not loaded"),
        (400, "The response was filtered because the answer was about temperature."),
        (400, "invalid image; please stop"),
        (404, "The model `m` does not exist"),
        (429, "Rate limit reached: limit 30000 tokens per minute"),
        (503, "temperature is not supported"),
    ],
)
def test_another_error_is_not_taken_for_a_quirk(status: int, text: str) -> None:
    assert reaction_to(Refusal(status, text, REQUEST)) is None


def test_only_what_was_sent_is_refused() -> None:
    request = {"model": "m", "messages": REQUEST["messages"][1:], "tools": [{}]}
    for text in ("`temperature` is not supported", "System role not supported", "`tools` is not supported"):
        assert reaction_to(Refusal(400, text, request)) is None


@pytest.mark.usefixtures("each_transport")
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "reasoning_content": json.dumps(GOOD)},
        {"content": "", "reasoning": json.dumps(GOOD)},
        {"content": f"<think>Paris?</think>{json.dumps(GOOD)}"},
        {"content": json.dumps(GOOD), "reasoning_content": "Paris, or Lyon?"},
    ],
)
def test_an_answer_in_another_field_is_read(message: Mapping[str, Any], kind: str) -> None:
    with ScriptedServer(lambda request: Answer("", message=message)) as server:
        assert CALLS[kind](client_for(server)) == "Paris"
        assert len(server.requests) == 1


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
    {"type": "text", "text": json.dumps(GOOD)},
]


@pytest.mark.parametrize("kind", CALLS)
def test_an_answer_in_parts_is_read(kind: str) -> None:
    with ScriptedServer(lambda request: Answer("", message={"content": PARTS})) as server:
        assert CALLS[kind](client_for(server)) == "Paris"


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_an_answer_in_parts_that_litellm_cannot_read_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_MODEL_CLIENT", "litellm")
    with ScriptedServer(lambda request: Answer("", message={"content": PARTS})) as server:
        with pytest.raises(LLMCallError, match="LiteLLM cannot read the answer"):
            plain(client_for(server))
        assert len(server.requests) == 1


@pytest.mark.usefixtures("each_transport")
@pytest.mark.parametrize("kind", ["structured", "structured, on a loop"])
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer("", message={"content": None, "refusal": "I can't help with that."}), "I can't help with that"),
        (Answer("", message={"content": None}, finish_reason="content_filter"), "withheld by the content filter"),
    ],
)
def test_a_refusal_to_answer_is_named_and_not_asked_again(answer: Answer, problem: str, kind: str) -> None:
    with ScriptedServer(lambda request: answer) as server:
        with pytest.raises(UnusableAnswerError, match=problem):
            CALLS[kind](client_for(server))
        assert len(server.requests) == 1


@pytest.mark.usefixtures("each_transport")
@pytest.mark.parametrize("kind", ["structured", "structured, on a loop"])
def test_an_answer_that_was_cut_off_is_asked_for_once_more_with_twice_the_length(kind: str) -> None:
    def script(request: ScriptedRequest) -> Reply:
        is_enough = request.body["max_tokens"] > 100
        return Answer(GOOD) if is_enough else Answer('{"reasoning": "I', finish_reason="length")

    with ScriptedServer(script) as server:
        assert CALLS[kind](client_for(server, max_tokens=100)) == "Paris"
        first, second = server.requests
        assert (first.body["max_tokens"], second.body["max_tokens"]) == (100, 200)
        assert first.messages == second.messages


def test_an_answer_is_not_asked_for_with_more_than_the_model_allows() -> None:
    cut = Answer('{"reasoning": "I', finish_reason="length")
    with ScriptedServer(lambda request: cut) as server:
        client = client_for(server, max_tokens=1000, context_tokens=2000, validation_retries=1)
        with pytest.raises(UnusableAnswerError, match="cut off at max_tokens"):
            structured(client)
        assert [request.body["max_tokens"] for request in server.requests] == [500, 500]
