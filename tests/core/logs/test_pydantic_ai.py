"""Histories of pydantic-ai."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs import Tokens
from tests.core.logs.log_files import run_of, runs_of, steps_of, written


def request(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "request", "parts": list(parts)}


def response(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"kind": "response", "parts": list(parts), **fields}


def part(kind: str, content: Any = None, **fields: Any) -> dict[str, Any]:
    return {"part_kind": kind, **({} if content is None else {"content": content}), **fields}


HISTORY = [
    request(part("system-prompt", "Be brief."), part("user-prompt", "Which port?")),
    response(
        part("thinking", "Read it."),
        part("tool-call", tool_name="read", args='{"path": "cfg"}', tool_call_id="c1"),
        usage={"request_tokens": 9, "response_tokens": 4},
        model_name="m",
        timestamp="2026-01-02T10:00:00Z",
    ),
    request(part("retry-prompt", "No such file.", tool_name="read", tool_call_id="c1")),
    response(
        part("tool-call", tool_name="read", args={"path": "cfg.yml"}, tool_call_id="c2"),
        usage={"input_tokens": 5, "output_tokens": 2},
    ),
    request(part("tool-return", {"port": 80}, tool_name="read", tool_call_id="c2")),
    response(part("text", "It is 80.")),
]


def test_a_history(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "history.json", HISTORY))

    assert steps_of(run) == [
        "harness: Be brief.",
        "person: Which port?",
        "thought: Read it.",
        'read {"path": "cfg"}',
        "read failed: No such file.",
        'read {"path": "cfg.yml"}',
        'read returned: {"port": 80}',
        "agent: It is 80.",
    ]
    assert (run.task, run.answer, run.model, run.tokens) == (
        "Which port?",
        "It is 80.",
        "m",
        Tokens(input=14, output=6),
    )


@pytest.mark.parametrize("document", [[HISTORY, HISTORY[:1]], {"messages": HISTORY}, {"run": {"history": HISTORY}}])
def test_histories_at_any_place(tmp_path: Path, document: Any) -> None:
    assert runs_of(written(tmp_path / "histories.json", document))[0].answer == "It is 80."


def test_a_history_on_each_line(tmp_path: Path) -> None:
    runs = runs_of(written(tmp_path / "histories.jsonl", HISTORY, HISTORY))

    assert [run.task for run in runs] == ["Which port?"] * 2


@pytest.mark.parametrize(("outcome", "is_error"), [("failed", True), ("denied", False), ("interrupted", False)])
def test_the_outcome_of_a_tool(tmp_path: Path, outcome: str, is_error: bool) -> None:
    returned = part("tool-return", "x", tool_name="read", tool_call_id="c1", outcome=outcome)

    run = run_of(written(tmp_path / "h.json", [*HISTORY[:2], request(returned)]))

    assert run.steps[-1].is_error is is_error


def test_a_retry_without_a_tool_is_said_by_the_library(tmp_path: Path) -> None:
    retry = request(part("retry-prompt", "Answer as JSON."))

    run = run_of(written(tmp_path / "h.json", [HISTORY[0], response(part("text", "80")), retry]))

    assert steps_of(run)[-1] == "harness: Answer as JSON."


def test_a_typed_answer(tmp_path: Path) -> None:
    call = part("tool-call", tool_name="final_result", args={"port": 80}, tool_call_id="c")

    run = run_of(written(tmp_path / "h.json", [HISTORY[0], response(call)]))

    assert run.answer == '{"port": 80}'
