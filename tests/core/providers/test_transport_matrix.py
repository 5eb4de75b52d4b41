"""Servers of both protocols, good and bad: requests that go straight to them end as those through LiteLLM do."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ace.outputs import AgentOutput
from ace.protocols import LLMCallError, UnusableAnswerError
from ace.protocols.llm import Usage
from tests.support.clients import client_for
from tests.support.scripted_server import BrokenBody, HttpError, Reply, ScriptedRequest, ScriptedServer

MODELS = {"OpenAI": "openai/scripted", "Anthropic": "anthropic/scripted"}
GOOD = json.dumps({"reasoning": "I know.", "final_answer": "Paris"})
RETRY_AFTER = 0.2

Say = Callable[[str, bool], Reply]
"""Makes the answer of a protocol from a text, and whether the limit of tokens cut it off."""
Script = Callable[[Say, ScriptedRequest], Reply]


def say_as_openai(text: str, is_cut: bool = False) -> Reply:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "length" if is_cut else "stop"}
    counts = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted", "usage": counts}
    return BrokenBody(json.dumps({**body, "choices": [{"index": 0, **choice}]}))


def say_as_anthropic(text: str, is_cut: bool = False) -> Reply:
    ending = {"stop_reason": "max_tokens" if is_cut else "end_turn", "stop_sequence": None}
    body = {"id": "x", "type": "message", "role": "assistant", "model": "scripted", **ending}
    content = [{"type": "text", "text": text}]
    return BrokenBody(json.dumps({**body, "content": content, "usage": {"input_tokens": 100, "output_tokens": 10}}))


SAY: Mapping[str, Say] = {"OpenAI": say_as_openai, "Anthropic": say_as_anthropic}


def good(say: Say, request: ScriptedRequest) -> Reply:
    return say(GOOD, False)


def wrong_key(say: Say, request: ScriptedRequest) -> Reply:
    return HttpError(401, "invalid key")


def busy_once(say: Say, request: ScriptedRequest) -> Reply:
    return HttpError(429, "slow down", {"retry-after": str(RETRY_AFTER)}) if request.number == 1 else say(GOOD, False)


def busy(say: Say, request: ScriptedRequest) -> Reply:
    return HttpError(429, "slow down")


def broken_once(say: Say, request: ScriptedRequest) -> Reply:
    return HttpError(500, "oops") if request.number == 1 else say(GOOD, False)


def broken(say: Say, request: ScriptedRequest) -> Reply:
    return HttpError(500, "oops")


def cut_once(say: Say, request: ScriptedRequest) -> Reply:
    return say(GOOD[:-12], True) if request.number == 1 else say(GOOD, False)


def cut(say: Say, request: ScriptedRequest) -> Reply:
    return say(GOOD[:-12], True)


def schema_refused(say: Say, request: ScriptedRequest) -> Reply:
    return HttpError(400, "unknown: response_format") if "response_format" in request.body else say(GOOD, False)


def schema_ignored(say: Say, request: ScriptedRequest) -> Reply:
    return say("It is Paris.", False) if request.number == 1 else say(f"Here it is:\n```json\n{GOOD}\n```", False)


def never_json(say: Say, request: ScriptedRequest) -> Reply:
    return say("It is Paris.", False)


SCRIPTS: Mapping[str, tuple[Script, str]] = {
    "good": (good, "Paris"),
    "wrong key": (wrong_key, "the key is missing or was refused"),
    "429 with Retry-After": (busy_once, "Paris"),
    "429 each time": (busy, "slow down"),
    "500": (broken_once, "Paris"),
    "500 each time": (broken, "oops"),
    "truncated": (cut_once, "Paris"),
    "truncated each time": (cut, "cut"),
    "schema refused": (schema_refused, "Paris"),
    "no schema support": (schema_ignored, "Paris"),
    "never JSON": (never_json, "no JSON object"),
}


@dataclass(frozen=True)
class Outcome:
    """What a call came to: the answer or the text of the error, what was counted, and what was sent."""

    said: str
    usage: Usage
    requests: Sequence[tuple[str, dict[str, Any]]]


def outcome_of(protocol: str, script: Script, waits: list[float]) -> Outcome:
    arrivals: list[float] = []

    def reply(request: ScriptedRequest) -> Reply:
        arrivals.append(time.monotonic())
        return script(SAY[protocol], request)

    with ScriptedServer(reply) as server:
        base = server.api_base if protocol == "OpenAI" else server.url
        client = client_for(server, model=MODELS[protocol], api_base=base, max_retries=2, longest_retry_delay=1.0)
        try:
            said = client.complete_structured("What is the capital of France?", AgentOutput).final_answer
        except (LLMCallError, UnusableAnswerError) as error:
            said = f"error: {error}"
        sent = [(request.path, request.body) for request in server.requests]
    waits.extend(later - earlier for earlier, later in itertools.pairwise(arrivals))
    return Outcome(said.replace(base, "<server>"), client.usage, sent)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("protocol", MODELS)
def test_a_server_is_answered_alike_with_and_without_litellm(
    protocol: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, expected = SCRIPTS[name]
    waits: list[float] = []
    monkeypatch.delenv("ACE_MODEL_CLIENT", raising=False)
    direct = outcome_of(protocol, script, waits)
    monkeypatch.setenv("ACE_MODEL_CLIENT", "litellm")
    through_litellm = outcome_of(protocol, script, waits)
    assert direct == through_litellm
    assert expected in direct.said
    if name == "429 with Retry-After":
        assert len(waits) == 2
        assert min(waits) >= RETRY_AFTER
