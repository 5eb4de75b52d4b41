"""Traces that are longer than the context window of the model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ace import Reflector, Skillbook
from ace.logs.trace import read_trace
from ace.outputs import AgentOutput
from ace.protocols import ContextLimitError
from ace.roles import JudgementFinder
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, HttpError, Reply, ScriptedRequest, ScriptedServer

REFLECTION = {"reasoning": "r", "correct_approach": "c", "key_insight": "k"}
AGENT = AgentOutput(reasoning="", final_answer="")
LONG = "needle in front " + "x" * 80_000 + " needle at the end"


def fits(limit: int, said: str, status: int = 400) -> Callable[[ScriptedRequest], Reply]:
    """A server whose window is measured in characters, four to a token."""

    def script(request: ScriptedRequest) -> Reply:
        tokens = len(request.text) // 4
        is_long = tokens + request.body.get("max_tokens", 0) > limit
        return HttpError(status, said.format(limit=limit, tokens=tokens)) if is_long else Answer(REFLECTION)

    return script


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens}."),
        (400, "request ({tokens} tokens) exceeds the available context size ({limit} tokens), try increasing it"),
        (500, "the request exceeds the available context size"),
        (413, "Payload Too Large"),
    ],
)
def test_a_trace_is_shortened_until_the_server_takes_it(status: int, said: str) -> None:
    with ScriptedServer(fits(4096, said, status)) as server:
        reflector = Reflector(client_for(server, max_tokens=512))
        output = reflector.reflect("Find the needle.", AGENT, Skillbook(), trace={"log": LONG})
        assert 60_000 < output.raw["cut_characters"] < 80_000
        last = server.requests[-1]
        assert "needle in front" in last.text and "needle at the end" in last.text
        before = len(server.requests)
        reflector.reflect("Find the needle.", AGENT, Skillbook(), trace={"log": LONG})
        if "{limit}" in said:  # the window is known now
            assert (before, len(server.requests)) == (2, 3)


def test_a_window_that_the_rest_of_the_prompt_fills_is_an_error() -> None:
    with ScriptedServer(fits(512, "maximum context length is {limit} tokens")) as server:
        with pytest.raises(ContextLimitError, match="512 tokens"):
            Reflector(client_for(server)).reflect("?", AGENT, Skillbook(), trace={"log": LONG})
        assert len(server.requests) < 8


def test_messages_are_shortened_for_the_question_about_judgements() -> None:
    trace = {
        "question": "Find the needle.",
        "dialogue": [
            {"role": "user", "content": "Find the needle."},
            {"role": "assistant", "content": LONG},
            {"role": "user", "content": "No, that is wrong: it is red."},
        ],
    }

    def script(request: ScriptedRequest) -> Reply:
        is_long = len(request.text) > 20_000
        return HttpError(400, "Input is too long for requested model.") if is_long else Answer({"judgements": []})

    with ScriptedServer(script) as server:
        assert JudgementFinder(client_for(server)).find_judgements(read_trace(trace)) == []
        assert "it is red" in server.requests[-1].text
