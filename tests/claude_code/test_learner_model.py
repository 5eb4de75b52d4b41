"""The model that learns is chosen at the installation, with its price displayed."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ace.protocols.observers import ModelCalled, emit, observing
from ace.providers import price_of_model
from ace.runners import SpendLedger
from ace_claude_code.sessions.home import learned_path, state_folder
from ace_claude_code.sessions.settings import read_settings
from tests.claude_code import check_world
from tests.claude_code.conftest import Ace, ServerFor
from tests.claude_code.test_sessions import agents, session, wait_for_the_learner
from tests.support.command_line import ACE, command_environment


def chosen() -> tuple[str, str]:
    settings = read_settings(state_folder())
    assert settings is not None
    return settings.model, settings.api_base


def cost_in(out: str) -> float:
    found = re.search(r"An ordinary session costs about ([\d.]+) USD", out)
    assert found is not None, out
    return float(found[1])


def test_the_default_is_a_cheap_model_of_claude_code(claude: str, home: Path, ace: Ace) -> None:
    out = ace("install", "--claude", claude)["out"]
    assert chosen() == ("claude_code/haiku", "")
    assert "with claude_code/haiku, for at most 1 USD a day." in out
    assert "USD for a million tokens in" in out and "measured for 5 turns" in out
    assert "counts towards the limits of your plan" in out
    assert cost_in(out) < 0.1


def test_a_dearer_model_is_announced_with_its_price(claude: str, home: Path, ace: Ace) -> None:
    cheap = cost_in(ace("install", "--claude", claude, "--model", "claude_code/haiku")["out"])
    dear = cost_in(ace("install", "--claude", claude, "--model", "claude_code/opus")["out"])
    assert dear > 2 * cheap
    price = price_of_model("openai/gpt-4o-mini")
    assert price is not None
    out = ace("install", "--model", "openai/gpt-4o-mini")["out"]
    assert f"Its list price is {price.input_usd:g} USD for a million tokens in, and {price.output_usd:g} out." in out
    assert "plan" not in out


def test_models_without_a_price_are_announced_as_such(home: Path, ace: Ace) -> None:
    own = ace("install", "--model", "openai/mine", "--api-base", "http://127.0.0.1:9/v1")["out"]
    assert "The price of this model is not known." in own
    assert "free of charge" in ace("install", "--model", "local/qwen2.5-coder-1.5b")["out"]


def test_a_further_installation_keeps_the_model(home: Path, ace: Ace) -> None:
    ace("install", "--model", "openai/mine", "--api-base", "http://127.0.0.1:9/v1")
    ace("install", "--budget", "0.5")
    assert chosen() == ("openai/mine", "http://127.0.0.1:9/v1")
    ace("install", "--model", "openai/gpt-4o-mini")
    assert chosen() == ("openai/gpt-4o-mini", "")


def test_what_sessions_have_cost_here_is_the_estimate(home: Path, ace: Ace) -> None:
    state = state_folder()
    learned = learned_path(state, "-p")
    learned.parent.mkdir(parents=True)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    notes = [{"trace_id": f"t{number}", "session_id": f"s{number // 2}", "at": now} for number in range(12)]
    learned.write_text("".join(f"{json.dumps(note)}\n" for note in notes), encoding="utf-8")
    with observing(SpendLedger(state)):
        for _ in range(6):
            emit(ModelCalled("", "", "gpt-4o-mini", "Reflector", 10_000, 2_000, 0.1, 1.0, recorded=False))
    out = ace("install", "--model", "openai/gpt-4o-mini")["out"]
    assert "10,000 tokens in and 2,000 out (the mean of 6 sessions that were learned from in the last 30 days)" in out


@pytest.mark.parametrize(
    ("typed", "model"),
    [("\n", "claude_code/haiku"), ("2\n", "claude_code/sonnet"), ("openai/mine\n", "openai/mine"), ("", "")],
)
def test_at_a_terminal_the_model_is_asked_for(claude: str, home: Path, typed: str, model: str) -> None:
    ours, theirs = pty.openpty()
    environ = {**command_environment(home), "TERM": "xterm", "ACE_CLAUDE_BINARY": claude}
    command = [ACE, "claude-code", "install", *(() if typed else ("--model", "openai/mine"))]
    process = subprocess.Popen(command, cwd=home, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed.encode())
    screen = b""
    try:
        while more := os.read(ours, 4096):
            screen += more
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, screen
    if typed:
        assert b"1. claude_code/haiku: about 0.0" in screen and b"Which model learns?" in screen
        assert chosen()[0] == model
    else:
        assert b"Which model learns?" not in screen


def test_claude_code_is_asked_for_the_chosen_model(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    check_world.lay_out(project)
    server = serving(check_world.play)
    for number, model in enumerate((None, "sonnet"), 1):
        server.clear()
        ace("install", "--claude", claude, *(() if model is None else ("--model", f"claude_code/{model}")))
        session(claude, project)
        wait_for_the_learner(ace, number)
        learners = {str(request.body["model"]) for request in server.requests if "StructuredOutput" in request.tools}
        assert len(learners) == 1 and (model or "haiku") in learners.pop()
        assert agents(server)
