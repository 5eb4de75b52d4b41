"""Agents on the real SDKs get the same results with and without the proxy, and their runs are recorded."""

import json
from collections.abc import Callable
from pathlib import Path

import anthropic
import httpx
import openai
import pytest
from google.genai.errors import ClientError

from tests.proxy.model import ANSWER, compressed, model
from tests.proxy.sdk_agents import AGENTS, QUESTION
from tests.proxy.world import KEY, SKILL, Raw, Seen, in_json, world

WITH_TOOL = {name for name in AGENTS if "tools" in name or "responses" in name or "langchain" in name}


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_gets_the_same_result_through_the_proxy(tmp_path: Path, name: str) -> None:
    with world(tmp_path, model) as proxy:
        direct = AGENTS[name](proxy.server.url)
        sent = [(seen.path, seen.body) for seen in proxy.server.seen]
        proxy.server.seen.clear()
        assert AGENTS[name](proxy.address) == direct
        assert [(seen.path, seen.body) for seen in proxy.server.seen] == sent


@pytest.mark.parametrize("reply", [model, compressed])
@pytest.mark.parametrize("name", AGENTS)
def test_every_call_of_an_agent_has_the_same_skills_once_and_its_run_is_recorded(
    tmp_path: Path, name: str, reply: Callable[[Seen], Raw]
) -> None:
    with world(tmp_path, reply, skills=[SKILL]) as proxy:
        direct = AGENTS[name](proxy.server.url)
        proxy.server.seen.clear()
        assert AGENTS[name](proxy.address) == direct
        seen = list(proxy.server.seen)
        [run] = proxy.runs()
    systems = [system_of(request) for request in seen]
    assert len(set(systems)) == 1 and systems[0].count(SKILL) == 1
    assert [request.body.count(SKILL.encode()) for request in seen] == [1] * len(seen)
    said = [(step.kind, step.speaker, step.content) for step in run.steps if step.speaker != "harness"]
    question = f"{QUESTION}\n[image_url]" if "image" in name else QUESTION
    expected = [("message", "person", question)]
    if name in WITH_TOOL:
        expected += [("call", "agent", '{"city": "Paris"}'), ("result", "tool", '{"weather": "rain"}')]
    answer = '{"weather": "rain", "degrees": 7}' if "structured" in name else ANSWER
    assert said == [*expected, ("message", "agent", answer)]
    assert run.task == question and run.answer == answer
    assert SKILL not in str(run)  # what the proxy has added is not what the agent was told


def system_of(request: Seen) -> str:
    body = request.data
    if "contents" in body:
        return str(body["systemInstruction"])
    if "messages" not in body:
        return str(body["instructions"])
    return json.dumps(body["system"]) if "system" in body else str(body["messages"][0])


def test_errors_reach_the_sdks_as_they_are(tmp_path: Path) -> None:
    refused = in_json({"type": "error", "error": {"type": "overloaded_error", "message": "Too busy"}}, 529)
    with world(tmp_path, lambda _: refused) as proxy:
        with pytest.raises(anthropic.APIStatusError, match="Too busy") as of_anthropic:
            AGENTS["anthropic_messages"](proxy.address)
        with pytest.raises(openai.APIStatusError, match="Too busy") as of_openai:
            AGENTS["openai_chat"](proxy.address)
        runs = proxy.runs()
    assert (of_anthropic.value.status_code, of_openai.value.status_code) == (529, 529)
    assert [run.steps[-1].content for run in runs] == ["the model call failed with status 529: Too busy"] * 2


def test_keys_are_nowhere(tmp_path: Path) -> None:
    def leaking(seen: Seen) -> object:
        return in_json({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)

    with world(tmp_path, leaking) as proxy:  # type: ignore[arg-type]
        for name in ("openai_chat", "anthropic_messages", "gemini"):
            with pytest.raises((openai.AuthenticationError, anthropic.AuthenticationError, ClientError)):
                AGENTS[name](proxy.address)
        path = f"/v1beta/models/m:generateContent?key={KEY}"
        httpx.post(proxy.address + path, json={"contents": [{"parts": [{"text": "Hi"}]}]})
        assert len(proxy.runs()) == 4
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert KEY not in str(proxy.told)
