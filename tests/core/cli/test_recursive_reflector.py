"""`--reflector recursive`: the traces are explored with code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.reflection_script import LOOK, TRACE, Explorer, is_turn, python, submit
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")

FLAGS = ["--model", "openai/scripted", "--no-prove", "--max-tokens", "500"]


def options(server: ScriptedServer) -> list[str]:
    return [*FLAGS, "--api-base", server.api_base]


def with_greeting(explorer: Explorer) -> Callable[[ScriptedRequest], object]:
    """The command first asks the model for a word."""

    def script(request: ScriptedRequest) -> object:
        return explorer(request) if is_turn(request) or request.role else "ready"

    return script


@pytest.mark.parametrize("command", ["learn", "train"])
def test_traces_are_explored_with_code(command: str, tmp_path: Path, here: Run) -> None:
    sample = {"question": "How tall is the tower?", "target": "30 m"}
    (tmp_path / "input.jsonl").write_text(json.dumps(TRACE if command == "learn" else sample) + "\n", encoding="utf-8")
    asks = python("print(llm_query('Which unit?'))")
    with ScriptedServer(with_greeting(Explorer([LOOK, asks, submit()]))) as server:  # type: ignore[arg-type]
        done = here(command, "input.jsonl", *options(server), "--reflector", "recursive")
    assert done.code == 0, done.err
    turns = [request for request in server.requests if is_turn(request)]
    assert len(turns) == 3 and "[Iteration 3/20]" in turns[-1].text
    assert "ready" in turns[-1].text  # the answer to the sub-question
    assert "1 new skill" in done.err


def test_the_progress_shows_turns_and_questions(tmp_path: Path, here: Run) -> None:
    (tmp_path / "input.jsonl").write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    asks = python("print(ask_llm_many(['Which unit?', 'Which tower?']))")
    with ScriptedServer(with_greeting(Explorer([asks, submit()]))) as server:  # type: ignore[arg-type]
        done = here("learn", "input.jsonl", *options(server), "--reflector", "recursive")
    assert done.code == 0, done.err
    assert "turn " in done.err and "question" in done.err


def test_the_number_of_turns_is_limited(tmp_path: Path, here: Run) -> None:
    (tmp_path / "input.jsonl").write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    flags = ["--reflector", "recursive", "--max-iterations", "3"]
    with ScriptedServer(with_greeting(Explorer([Answer(LOOK)]))) as server:  # type: ignore[arg-type]
        done = here("learn", "input.jsonl", *options(server), *flags)
    assert done.code == 1
    assert "no reflection after 3 turns and 4 model calls: the limit of 3 iterations was reached" in done.err + done.out
    assert sum(is_turn(request) for request in server.requests) == 4


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max-iterations", "3"], "--max-iterations requires --reflector recursive"),
        (
            ["--reflector", "recursive", "--max-iterations", "0"],
            "--max-iterations must be a whole number of at least 1, got 0",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(flags: list[str], message: str, tmp_path: Path, here: Run) -> None:
    (tmp_path / "input.jsonl").write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    done = here("learn", "input.jsonl", *FLAGS, "--api-base", "http://127.0.0.1:9/v1", *flags)
    assert done.code == 2
    assert message in done.err
