"""A request that goes straight to a server is the one that LiteLLM would send, and its answer counts for the same."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ace.protocols.llm import Usage
from ace.providers import direct_requests, litellm_library, load_litellm
from ace.providers.direct_requests import DirectRequest, direct_request
from ace.providers.request_outcomes import Answered, Failed
from tests.support.clients import KEY
from tests.support.command_line import command_environment
from tests.support.scripted_anthropic_server import Refusal, ScriptedAnthropicServer, Text, Thinking, ToolUse
from tests.support.scripted_anthropic_server import Reply as AnthropicReply
from tests.support.scripted_server import (
    Answer,
    BrokenBody,
    CutBody,
    HttpError,
    NoResponse,
    Reply,
    Reset,
    ScriptedServer,
    in_turn,
)

MARK = {"type": "ephemeral"}
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 m + 3 ft?"}]


def request(model: str, api_base: str | None = None, **settings: Any) -> dict[str, Any]:
    """The arguments of a call, as a client makes them by default."""
    given = {
        "model": model,
        "messages": CHAT,
        "api_base": api_base,
        "api_key": KEY,
        "max_tokens": 2048,
        "temperature": 0.0,
        "timeout": 30.0,
        "drop_params": True,
        **settings,
    }
    return {name: value for name, value in given.items() if value is not None}


def sent_by_litellm(server: ScriptedServer, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The path, the body and the headers of the one request that LiteLLM makes."""
    server.clear()
    litellm_library.send(asked)
    made = server.requests
    assert len(made) == 1, asked
    return made[0].path, made[0].body, made[0].headers


def assert_same_request(server: ScriptedServer, asked: Mapping[str, Any]) -> None:
    direct = direct_request(asked)
    assert isinstance(direct, DirectRequest), asked
    path, body, headers = sent_by_litellm(server, asked)
    assert direct.url == f"{server.url}{path}"
    assert json.loads(direct.body) == body, asked["model"]
    own = {name.lower(): value for name, value in direct.headers.items()}
    for name in ("authorization", "x-api-key", "anthropic-version", "content-type", "accept", "x-team"):
        assert own.get(name) == headers.get(name), name


def listed(provider: str, mode: str) -> list[str]:
    models = load_litellm().model_cost
    return sorted(
        name for name, entry in models.items() if (entry.get("litellm_provider"), entry.get("mode")) == (provider, mode)
    )


def base_for(server: ScriptedServer, model: str) -> str:
    return server.url if "claude" in model or model.startswith("anthropic/") else server.api_base


def test_every_listed_chat_model_gets_the_request_that_litellm_would_send() -> None:
    left_to_litellm = []
    with ScriptedServer(in_turn(HttpError(400))) as server:
        for name in (*listed("openai", "chat"), *listed("anthropic", "chat")):
            asked = request(name, base_for(server, name))
            if direct_request(asked) is None:
                left_to_litellm.append(name)
            else:
                assert_same_request(server, asked)
    assert len(left_to_litellm) < 40
    for name in (
        "gpt-4o-mini",
        "gpt-4.1",
        "gpt-5-mini",
        "gpt-5.1",
        "o3",
        "o4-mini",
        "claude-sonnet-4-5",
        "claude-opus-4-7",
    ):
        assert name not in left_to_litellm


def test_another_name_of_a_model_is_left_to_litellm_which_replaces_it(tmp_path: Path) -> None:
    table = {
        "m-1": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 9},
        "m-latest": {"alias_of": "m-1"},
    }
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    file = package / "model_prices_and_context_window_backup.json"
    file.write_text(json.dumps(table, indent=4), encoding="utf-8")
    program = """
from ace.providers.direct_requests import direct_request
from ace.providers.litellm_library import listed_model

for model in ("openai/m-1", "openai/m-latest", "m-1", "m-latest"):
    request = {"model": model, "messages": [], "timeout": 9.0, "api_key": "k", "api_base": "http://127.0.0.1:9/v1"}
    print(direct_request(request) is not None, listed_model(model)["max_input_tokens"])
"""
    environment = command_environment(tmp_path, {"PYTHONPATH": str(tmp_path)})
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True 9", "False 9", "True 9", "False 9"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_model_that_does_not_chat_is_left_to_litellm(provider: str) -> None:
    models = load_litellm().model_cost.items()
    others = [
        name for name, model in models if model.get("litellm_provider") == provider and model.get("mode") != "chat"
    ]
    assert [name for name in others if direct_request(request(name)) is not None] == []
    with_prefix = [f"{provider}/{name}" for name in others if not name.startswith(f"{provider}/")]
    assert [name for name in with_prefix if direct_request(request(name)) is not None] == []
    assert bool(others) is (provider == "openai")


SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no limits": {"temperature": None, "max_tokens": None},
    "sampling": {"temperature": 0.7, "top_p": 0.5, "stop": ["END"]},
    "one stop": {"stop": "END"},
    "seed": {"seed": 5, "presence_penalty": 0.1, "frequency_penalty": 0.2},
    "headers": {"extra_headers": {"X-Team": "blue"}},
    "a schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "A", "schema": {"type": "object"}}}
    },
    "cache marks": {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "rules", "cache_control": MARK}]},
            {"role": "system", "content": "more"},
            {"role": "user", "content": [{"type": "text", "text": "book"}, {"type": "text", "text": "case"}]},
        ]
    },
    "a conversation": {
        "messages": [
            *CHAT,
            {"role": "assistant", "content": "5"},
            {"role": "user", "content": "Units?"},
            {"role": "user", "content": "Ünïts?"},
        ]
    },
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("model", ["openai/scripted", "gpt-4o-mini", "openai/gpt-4.1", "openai/org/model"])
def test_an_openai_server_gets_the_request_that_litellm_would_send(model: str, settings: dict[str, Any]) -> None:
    with ScriptedServer(in_turn("fine")) as server:
        assert_same_request(server, request(model, server.api_base, **settings))
        assert_same_request(server, request(model, f"{server.api_base}/", **settings))


ANTHROPIC_SETTINGS = {
    name: settings for name, settings in SETTINGS.items() if name not in ("no limits", "seed", "a schema")
}


@pytest.mark.parametrize("settings", [*ANTHROPIC_SETTINGS.values(), {"top_k": 3}], ids=[*ANTHROPIC_SETTINGS, "top_k"])
@pytest.mark.parametrize("model", ["anthropic/scripted", "claude-sonnet-4-5", "anthropic/claude-opus-4-7"])
def test_an_anthropic_server_gets_the_request_that_litellm_would_send(model: str, settings: dict[str, Any]) -> None:
    with ScriptedServer(in_turn(HttpError(400))) as server:
        assert_same_request(server, request(model, server.url, **settings))
        assert_same_request(server, request(model, f"{server.url}/v1/messages", **settings))


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
FOR_LITELLM: dict[str, dict[str, Any]] = {
    "another provider": {"model": "gemini/gemini-2.0-flash"},
    "no provider": {"model": "of-nobody"},
    "an unknown Claude": {"model": "anthropic/claude-opus-99"},
    "a model of the responses API": {"model": "openai/responses/gpt-4o"},
    "tools": {"tools": [TOOL]},
    "an unknown argument": {"mock_response": "x"},
    "a model list": {"model_list": [{"model_name": "x"}]},
    "metadata": {"metadata": {"user_id": "x"}},
    "an image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
    "a tool result": {"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]},
    "a timeout with parts": {"timeout": None},
    "what JSON does not have": {"seed": float("nan")},
    "a password in the address": {"api_base": "http://user:word@127.0.0.1:9/v1"},
    "a query in the address": {"api_base": "http://127.0.0.1:9/v1?key=x"},
    "no address": {"api_base": "localhost:9/v1"},
    "the address of another server": {"model": "gpt-4o-mini", "api_base": "https://api.example.com/v1"},
    "an answer to continue": {
        "model": "anthropic/scripted",
        "messages": [*CHAT, {"role": "assistant", "content": "It"}],
    },
    "an empty text": {"model": "anthropic/scripted", "messages": [{"role": "user", "content": " "}]},
    "no limit for Anthropic": {"model": "anthropic/scripted", "max_tokens": None},
    "a token of a subscription": {"model": "anthropic/scripted", "api_key": "sk-ant-oat01-x"},
}


@pytest.mark.parametrize("settings", FOR_LITELLM.values(), ids=FOR_LITELLM)
def test_what_only_litellm_knows_is_left_to_it(settings: dict[str, Any]) -> None:
    given = {"model": "openai/scripted", "api_base": "http://127.0.0.1:9/v1", **settings}
    assert direct_request(request(**given)) is None


VARIABLES = {
    "the switch": ("ACE_MODEL_CLIENT", "litellm"),
    "an organization": ("OPENAI_ORGANIZATION", "org-1"),
    "headers": ("OPENAI_CUSTOM_HEADERS", "X: y"),
    "a setting of LiteLLM": ("LITELLM_MODIFY_PARAMS", "True"),
    "unchecked certificates": ("SSL_VERIFY", "False"),
}


@pytest.mark.parametrize(("name", "value"), VARIABLES.values(), ids=VARIABLES)
def test_variables_that_litellm_reads_count(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request("openai/scripted", "http://127.0.0.1:9/v1")
    monkeypatch.delenv("ACE_MODEL_CLIENT", raising=False)
    assert direct_request(asked) is not None
    monkeypatch.setenv(name, value)
    assert direct_request(asked) is None


@pytest.mark.parametrize("name", ["success_callback", "callbacks"])
def test_callbacks_of_litellm_see_the_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request("openai/scripted", "http://127.0.0.1:9/v1")
    litellm = load_litellm()
    assert direct_request(asked) is not None
    monkeypatch.setattr(litellm, name, [print])
    assert direct_request(asked) is None


def test_a_replaced_function_of_litellm_sees_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_litellm(), "completion", print)
    assert direct_request(request("openai/scripted", "http://127.0.0.1:9/v1")) is None


ADDRESSES = ["OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"]


@pytest.mark.parametrize("variable", ADDRESSES)
def test_addresses_of_the_environment_are_read_as_litellm_reads_them(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ADDRESSES:
        monkeypatch.delenv(address, raising=False)
    model = "gpt-4o-mini" if variable.startswith("OPENAI") else "anthropic/scripted"
    with ScriptedServer(in_turn(HttpError(400))) as server:
        for address in ADDRESSES[ADDRESSES.index(variable) : ADDRESSES.index(variable) + 2]:  # the first one counts
            if address.partition("_")[0] == variable.partition("_")[0]:
                monkeypatch.setenv(address, f"{server.url}/{address}")
        assert_same_request(server, request(model))


REPLIES: list[Reply] = [
    Answer("Paris"),
    Answer(""),
    Answer("cut", finish_reason="length"),
    Answer("no", finish_reason="content_filter"),
    Answer("odd", finish_reason="of_its_own"),
    Answer("<think>Well.</think>Paris"),
    Answer("a <think>b</think>"),
    Answer({"a": 1}, tool="f", finish_reason="tool_calls"),
    Answer("uncounted", with_usage=False),
    BrokenBody('{"choices": []}'),
    *(HttpError(status, "no good") for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529)),
    HttpError(429, "slow down", {"retry-after": "7"}),
    HttpError(503, "later", {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    HttpError(400, "This model's maximum context length is 8192 tokens; your messages have 9000"),
    HttpError(400, "content_policy_violation: rejected by the safety system"),
    HttpError(401, f"wrong key {KEY}"),
]


@pytest.mark.parametrize("reply", REPLIES, ids=repr)
@pytest.mark.parametrize("model", ["openai/scripted", "openai/gpt-4o-mini"])
def test_an_openai_answer_counts_for_the_same(model: str, reply: Reply) -> None:
    with ScriptedServer(in_turn(reply)) as server:
        asked = request(model, server.api_base)
        assert_same_outcome(direct_requests.send(asked), litellm_library.send(asked))
        assert server.requests[0].headers["user-agent"] == "ace-core"


BROKEN: list[Reply] = [
    BrokenBody(),
    BrokenBody("[]"),
    BrokenBody("{}"),
    BrokenBody("<html>"),
    BrokenBody('{"error": {}}'),
]


@pytest.mark.parametrize("reply", [*BROKEN, Reset(), CutBody(), NoResponse(0.2)], ids=repr)
def test_an_answer_that_cannot_be_read_may_be_asked_for_again(reply: Reply) -> None:
    with ScriptedServer(in_turn(reply)) as server:
        asked = request("openai/scripted", server.api_base)
        ours, theirs = direct_requests.send(asked), litellm_library.send(asked)
        assert asyncio.run(direct_requests.asend(asked)) == ours
    assert isinstance(ours, Failed) and isinstance(theirs, Failed)
    assert ours.status_code == theirs.status_code
    if isinstance(reply, BrokenBody):  # LiteLLM reports it as an error of the server
        assert ours.problem.startswith("the answer is not ")
    else:
        assert ours.problem == theirs.problem


def test_a_server_that_is_not_there_has_no_status() -> None:
    for model in ("openai/scripted", "anthropic/scripted"):
        asked = request(model, "http://127.0.0.1:9/v1")
        for outcome in (direct_requests.send(asked), litellm_library.send(asked)):
            assert isinstance(outcome, Failed)
            assert (outcome.status_code, outcome.problem) == (None, "")
            assert "onnection" in outcome.reason


def assert_same_outcome(ours: Answered | Failed, theirs: Answered | Failed) -> None:
    if isinstance(ours, Failed) or isinstance(theirs, Failed):
        assert ours == theirs
        return
    assert (ours.response.text, ours.response.finish_reason) == (theirs.response.text, theirs.response.finish_reason)
    our_usage, their_usage = ours.response.usage, theirs.response.usage
    assert our_usage.cost == pytest.approx(their_usage.cost)
    assert replace(our_usage, cost=0.0) == replace(their_usage, cost=0.0)


ANTHROPIC_REPLIES: list[AnthropicReply] = [
    [Text("Paris")],
    [Text("Par"), Text("is")],
    [Thinking("Well."), Text("Paris")],
    [ToolUse("f", {"a": 1})],
    [],
    *(Refusal(status, "no good") for status in (400, 401, 403, 404, 429, 500, 503)),
    Refusal(400, "prompt is too long: 210000 tokens > 200000 maximum"),
]


@pytest.mark.parametrize("reply", ANTHROPIC_REPLIES, ids=repr)
@pytest.mark.parametrize("model", ["anthropic/scripted", "claude-sonnet-4-5"])
def test_an_anthropic_answer_counts_for_the_same(model: str, reply: AnthropicReply) -> None:
    with ScriptedAnthropicServer(lambda asked: reply) as server:
        asked = request(model, server.url)
        assert_same_outcome(direct_requests.send(asked), litellm_library.send(asked))
        first, second = (sent.body for sent in server.requests)
        assert first == second


@pytest.mark.parametrize(("status", "litellms"), [(413, 400), (529, 500)])
def test_a_status_that_litellm_replaces_is_kept(status: int, litellms: int) -> None:
    with ScriptedAnthropicServer(lambda asked: Refusal(status)) as server:
        asked = request("anthropic/scripted", server.url)
        ours, theirs = direct_requests.send(asked), litellm_library.send(asked)
    assert isinstance(ours, Failed) and isinstance(theirs, Failed)
    assert (ours.status_code, theirs.status_code) == (status, litellms)


COUNTS: list[dict[str, Any]] = [
    {"prompt_tokens": 1000, "completion_tokens": 70},
    {"prompt_tokens": 5000, "completion_tokens": 70, "prompt_tokens_details": {"cached_tokens": 4096}},
    {"prompt_tokens": 90, "completion_tokens": 700, "completion_tokens_details": {"reasoning_tokens": 600}},
    {"prompt_tokens": 300_000, "completion_tokens": 70},
    {"prompt_tokens": 5000, "completion_tokens": 70, "prompt_tokens_details": {"cache_write_tokens": 1024}},
]


@pytest.mark.parametrize("counts", COUNTS, ids=repr)
@pytest.mark.parametrize(
    "model", ["gpt-4o-mini", "gpt-4o-2024-05-13", "gpt-4.1", "gpt-5-mini", "gpt-5.4", "openai/mine"]
)
def test_an_answer_costs_what_litellm_computes(model: str, counts: dict[str, Any]) -> None:
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {**counts, "total_tokens": counts["prompt_tokens"] + counts["completion_tokens"]},
    }
    for more in ({}, {"service_tier": "default"}, {"service_tier": "flex"}):
        with ScriptedServer(in_turn(BrokenBody(json.dumps({**body, **more})))) as server:
            asked = request(model, server.api_base)
            assert_same_outcome(direct_requests.send(asked), litellm_library.send(asked))


ANTHROPIC_COUNTS: list[dict[str, Any]] = [
    {"input_tokens": 1000, "output_tokens": 70},
    {"input_tokens": 50, "output_tokens": 70, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 248},
    {"input_tokens": 250_000, "output_tokens": 70, "cache_read_input_tokens": 1800},
    {
        "input_tokens": 50,
        "output_tokens": 70,
        "cache_creation_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
        "service_tier": "standard",
    },
]


@pytest.mark.parametrize("counts", ANTHROPIC_COUNTS, ids=repr)
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "anthropic/claude-opus-4-7", "anthropic/mine"])
def test_an_anthropic_answer_costs_what_litellm_computes(model: str, counts: dict[str, Any]) -> None:
    message = {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "stop_reason": "end_turn",
    }
    body = {**message, "content": [{"type": "text", "text": "hi"}], "usage": counts}
    with ScriptedServer(in_turn(BrokenBody(json.dumps(body)))) as server:
        asked = request(model, server.url)
        assert_same_outcome(direct_requests.send(asked), litellm_library.send(asked))


@pytest.mark.parametrize("answered", ["gpt-4o-2024-08-06", "of-its-own"])
def test_an_answer_of_another_model_than_was_asked_for_costs_the_same(answered: str) -> None:
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": answered,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    }
    with ScriptedServer(in_turn(BrokenBody(json.dumps(body)))) as server:
        for model in ("openai/scripted", "gpt-4o-mini"):
            asked = request(model, server.api_base)
            assert_same_outcome(direct_requests.send(asked), litellm_library.send(asked))


def test_a_raw_answer_has_the_fields_of_a_chat_completion() -> None:
    with ScriptedServer(in_turn("Paris")) as server:
        outcome = direct_requests.send(request("openai/scripted", server.api_base))
    assert isinstance(outcome, Answered)
    raw: Any = outcome.response.raw
    assert raw.choices[0].message.content == raw["choices"][0]["message"]["content"] == "Paris"
    with ScriptedAnthropicServer(lambda asked: [Text("Paris")]) as other:
        outcome = direct_requests.send(request("anthropic/scripted", other.url))
    assert isinstance(outcome, Answered)
    raw = outcome.response.raw
    assert (raw.choices[0].message.content, raw.usage.prompt_tokens) == ("Paris", 1000)
    assert outcome.response.usage == Usage(calls=1, input_tokens=1000, output_tokens=50, unpriced_calls=1)


def test_a_redirection_is_left_to_litellm() -> None:
    with ScriptedServer(in_turn("Paris")) as server:
        moved = HttpError(307, headers={"location": f"{server.api_base}/chat/completions"})
        with ScriptedServer(in_turn(moved)) as old:
            outcome = direct_requests.send(request("openai/scripted", old.api_base))
    assert isinstance(outcome, Answered)
    assert outcome.response.text == "Paris"


def test_a_key_that_cannot_be_sent_does_not_show() -> None:
    key = "sk-with-a-line-feed-1234\n"
    with ScriptedServer(in_turn("never")) as server:
        for call in (direct_requests.send, lambda asked: asyncio.run(direct_requests.asend(asked))):
            outcome = call(request("openai/scripted", server.api_base, api_key=key))
            assert isinstance(outcome, Failed)
            assert (outcome.status_code, server.requests) == (400, [])
            assert (
                outcome.reason == "the request cannot be sent: a header contains a character that HTTP does not allow"
            )
