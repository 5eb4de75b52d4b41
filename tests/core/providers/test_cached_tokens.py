"""Tokens that a provider had in its cache, or wrote to it, are counted and priced as the provider does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace import LiteLLMClient
from ace.calls.model_calls import recorded_response, response_to_record
from ace.protocols.llm import LLMResponse, Usage
from ace.protocols.observers import Event, ModelCalled, observing
from tests.support.command_line import Run
from tests.support.scripted_anthropic_server import ScriptedAnthropicServer, Text
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

# The shape of OpenAI's API reference, of a prompt most of which was in the cache.
OPENAI_USAGE = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}
# The shape of Anthropic's API reference: `input_tokens` is what is neither read from the cache nor written to it.
ANTHROPIC_USAGE = {
    "input_tokens": 50,
    "cache_creation_input_tokens": 248,
    "cache_read_input_tokens": 1800,
    "output_tokens": 300,
}


def test_cached_tokens_of_an_openai_server_are_counted_and_cost_less() -> None:
    events: list[Event] = []
    with ScriptedServer(lambda request: Answer("Paris", usage=OPENAI_USAGE)) as server:
        client = LiteLLMClient("openai/gpt-4o-mini", api_base=server.api_base, api_key="key")
        with observing(events.append):
            client.complete("Capital of France?")
    usage = client.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens) == (2006, 1920, 0)
    assert usage.cost == pytest.approx(86 * 0.15e-6 + 1920 * 0.075e-6 + 300 * 0.6e-6)
    (called,) = events
    assert isinstance(called, ModelCalled)
    assert (called.cached_input_tokens, called.cache_write_tokens, called.cost) == (1920, 0, usage.cost)


def test_tokens_read_from_and_written_to_the_cache_of_anthropic_are_counted_and_priced() -> None:
    with ScriptedAnthropicServer(lambda request: [Text("Paris")], usage=ANTHROPIC_USAGE) as server:
        client = LiteLLMClient("anthropic/claude-sonnet-4-5", api_base=server.url, api_key="key")
        client.complete("Capital of France?")
    usage = client.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens) == (2098, 1800, 248)
    assert usage.cost == pytest.approx(50 * 3e-6 + 1800 * 0.3e-6 + 248 * 3.75e-6 + 300 * 15e-6)


def test_a_server_that_says_nothing_about_a_cache_has_none() -> None:
    with ScriptedServer(lambda request: "Paris") as server:
        client = LiteLLMClient("openai/scripted", api_base=server.api_base)
        client.complete("Capital of France?")
    assert (client.usage.cached_input_tokens, client.usage.cache_write_tokens) == (0, 0)


def test_a_recorded_answer_keeps_its_cached_tokens_and_an_older_record_has_none() -> None:
    usage = Usage(calls=1, input_tokens=10, cached_input_tokens=7, cache_write_tokens=2)
    record = response_to_record(LLMResponse("Paris", usage=usage))
    assert recorded_response(record).usage == usage
    older = {name: value for name, value in json.loads(record).items() if not name.startswith("cache")}
    assert recorded_response(json.dumps(older)).usage == Usage(calls=1, input_tokens=10)


def test_the_report_of_a_run_tells_the_cached_tokens(here: Run, tmp_path: Path) -> None:
    trace = {"question": "2+2?", "answer": "5", "feedback": "wrong"}
    (tmp_path / "traces.jsonl").write_text(json.dumps(trace), encoding="utf-8")
    reflection = {"reasoning": "The sum is wrong.", "correct_approach": "Add again.", "key_insight": "Check sums."}

    def script(request: ScriptedRequest) -> Answer:
        return Answer(reflection if request.role == "reflector" else {"operations": []}, usage=OPENAI_USAGE)

    with ScriptedServer(script) as server:
        command = ["learn", "traces.jsonl", "--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        use = here(*command, "--json").data["model_use"]
        asked = len(server.requests)
        table = here(*command, "--again").out
    assert asked and (use["input_tokens"], use["cached_input_tokens"]) == (2006 * asked, 1920 * asked)
    assert use["cache_write_tokens"] == 0
    assert f"{1920 * asked} (96%)" in table
