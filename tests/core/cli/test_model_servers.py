"""Commands on model servers that refuse what others accept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Run
from tests.support.learning_script import learning_script
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer

Script = Callable[[ScriptedRequest], Reply | str | Mapping[str, Any]]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(3):
        trace = {"question": f"Question {number}?", "answer": "4", "feedback": f"wrong; LESSON word{number}"}
        (folder / f"{number}.json").write_text(json.dumps(trace))
    return folder


def refusing(refuses: Callable[[dict[str, Any]], bool], said: str) -> Script:
    script = learning_script()
    return lambda request: HttpError(400, said) if refuses(request.body) else script(request)


def has_system(body: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def options(server: ScriptedServer) -> list[str]:
    return ["--model", "openai/scripted", "--api-base", server.api_base]


@pytest.mark.parametrize(
    ("refuses", "said", "told"),
    [
        (has_system, "System role not supported", "the instructions are sent in the user message"),
        (lambda body: "temperature" in body, "`temperature` is deprecated for this model.", "temperature is not sent"),
        (lambda body: "response_format" in body, "json_schema is not supported", "response_format is not sent"),
    ],
)
def test_the_test_request_finds_what_the_server_refuses(
    here: Run, logs: Path, refuses: Callable[[dict[str, Any]], bool], said: str, told: str
) -> None:
    with ScriptedServer(refusing(refuses, said)) as server:
        done = here("learn", logs, *options(server), "--json")
        assert (done.code, done.data["traces"]["learned"]) == (0, 3)
        assert [refuses(request.body) for request in server.requests].count(True) == 1
        assert refuses(server.requests[0].body) and "Answer with the word: ready" in server.requests[1].text
        assert told in done.err
        again = here("learn", logs, *options(server), "--again", "--json")
        assert again.code == 0 and told not in again.err
        assert [refuses(request.body) for request in server.requests].count(True) == 1


def test_what_was_learned_is_shown_and_forgotten(here: Run) -> None:
    with ScriptedServer(refusing(has_system, "System role not supported")) as server:
        base = ["--api-base", server.api_base]
        for _ in range(2):
            done = here("models", "check", "openai/scripted", *base)
            assert done.code == 0 and "it answers" in done.out
            assert "the instructions are sent in the user message" in done.out
        assert [has_system(request.body) for request in server.requests] == [True, False, False]
        forgotten = here("models", "check", "openai/scripted", *base, "--forget")
        assert forgotten.out.endswith("what was learned about it is forgotten\n") and len(server.requests) == 3
        data = here("models", "check", "openai/scripted", *base, "--forget", "--json").data
        assert (data["learned"], data["forgotten"]) == ([], False)


def test_forgetting_needs_a_model(here: Run) -> None:
    done = here("models", "check", "--forget")
    assert done.code == 2 and "ace models check MODEL --forget" in done.err


def test_the_report_names_the_traces_that_were_shortened(here: Run, logs: Path) -> None:
    long = {"question": "Long?", "answer": "4", "log": "x" * 81_000, "feedback": "wrong; LESSON longword"}
    (logs / "long.json").write_text(json.dumps(long))
    said = "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens."
    script = refusing(lambda body: len(json.dumps(body["messages"])) > 9000, said)
    with ScriptedServer(script) as server:
        data = here("learn", logs, *options(server), "--json").data
        assert data["traces"]["learned"] == 4
        ((place, cut),) = data["shortened"].items()
        assert "long.json" in place and 70_000 < cut < 81_000
        again = here("learn", logs, *options(server), "--again")
        assert "characters cut" in again.out and str(cut) in again.out


def test_the_size_of_a_trace_can_be_set(here: Run, logs: Path) -> None:
    (logs / "long.json").write_text(json.dumps({"question": "Long?", "answer": "4", "log": "x" * 20_000}))
    with ScriptedServer(learning_script()) as server:
        data = here("learn", logs / "long.json", *options(server), "--max-trace-tokens", "1000", "--json").data
        assert 16_000 < sum(data["shortened"].values()) < 18_000
        data = here("learn", logs / "long.json", *options(server), "--again", "--context-tokens", "4096", "--json").data
        assert 13_000 < sum(data["shortened"].values()) < 16_000
        assert server.by_role("reflector")[-1].body["max_tokens"] == 1024
        done = here("learn", logs, *options(server), "--reflector", "recursive", "--max-trace-tokens", "1000")
        assert done.code == 2 and "--max-trace-tokens requires --reflector single" in done.err


def test_a_server_that_forbids_the_model_is_quoted(here: Run, logs: Path) -> None:
    said = "Your organization must be verified to use this model."
    with ScriptedServer(lambda request: HttpError(403, said)) as server:
        done = here("learn", logs, *options(server))
        assert done.code == 2 and said in done.err and "key" not in done.err
        assert len(server.requests) == 1


def test_a_spent_quota_is_quoted_and_not_asked_again(here: Run, logs: Path) -> None:
    said = "You exceeded your current quota, please check your plan and billing details."
    with ScriptedServer(lambda request: HttpError(429, said)) as server:
        done = here("learn", logs, *options(server))
        assert done.code == 2 and said in done.err
        assert len(server.requests) == 1


def test_a_provider_that_cannot_be_reached_is_a_problem_of_the_network(here: Run, logs: Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-of-nobody", "HTTPS_PROXY": "http://127.0.0.1:9", "ACE_TIMEOUT": "5"}
    done = here("learn", logs, "--model", "gpt-4o", environ=environ)
    assert done.code == 2 and "check your network connection" in done.err
