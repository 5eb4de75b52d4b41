"""Sessions of Goose and Pi are read."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import DATA, run_of, runs_of, steps_of, written


def test_a_session_of_goose() -> None:
    run = run_of(DATA / "goose.jsonl")

    assert steps_of(run) == [
        "person: How much is the blue kettle?",
        "thought: Ask the shop.",
        'get_price {"sku": "KET-2"}',
        "get_price failed: no such sku KET-2",
        'get_price {"sku": "KET-3"}',
        "get_price returned: 14",
        "agent: It is 14.",
    ]
    assert run.cwd == "/shop"


@pytest.mark.parametrize(
    ("value", "failed"),
    [([{"type": "text", "text": "x"}], False), ({"content": [{"type": "text", "text": "x"}], "isError": True}, True)],
)
def test_values_of_results_of_goose(tmp_path: Path, value: Any, failed: bool) -> None:
    call = {"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "ls"}}}
    result = {"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": value}}
    messages = [
        {"role": role, "created": 1, "content": [block]} for role, block in (("assistant", call), ("user", result))
    ]

    assert (
        steps_of(run_of(written(tmp_path / "a.jsonl", *messages)))[1] == f"ls {'failed' if failed else 'returned'}: x"
    )


def test_the_database_of_goose(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT, session_type TEXT, created_at TEXT, input_tokens INTEGER)")
        connection.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,"
            " created_timestamp INTEGER, metadata_json TEXT)"
        )
        connection.executemany(
            "INSERT INTO sessions VALUES (?, ?, ?, ?)",
            [("2", "sub_agent", "2026-01-02", None), ("1", "user", "2026-01-01", 9), ("3", "user", "2026-01-03", None)],
        )
        for session, role, text, metadata in (
            ("1", "user", "A", {}),
            ("2", "user", "Look.", {}),
            ("1", "user", "A summary.", {"userVisible": False}),
            ("1", "assistant", "a", {}),
        ):
            content = json.dumps([{"type": "text", "text": text}])
            values = (session, role, content, 1767607201, json.dumps(metadata))
            connection.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json)"
                " VALUES (?, ?, ?, ?, ?)",
                values,
            )

    first, other = runs_of(path)

    assert steps_of(first) == ["person: A", "harness: A summary.", "agent: a"]
    assert (first.id, first.tokens.input) == ("1", 9)
    assert steps_of(other) == ["harness: Look."]


def test_a_session_of_pi_is_the_branch_that_was_continued_last() -> None:
    run = run_of(DATA / "pi.jsonl")

    assert steps_of(run) == [
        "person: How much is the blue kettle?",
        "thought: Ask the shop.",
        'get_price {"sku": "KET-2"}',
        "get_price failed: no such sku KET-2",
        'bash {"command": "ls prices"}',
        "bash failed: ls: prices: No such file",
        "agent: I do not know its price.",
    ]
    assert (run.id, run.cwd, run.tokens.input, run.tokens.output, run.cost) == ("p1", "/shop", 35, 7, 0.25)


def test_a_real_session_of_pi_that_was_resumed() -> None:
    run = run_of(DATA / "pi-session.jsonl")

    assert [step.content for step in run.steps if step.speaker == "person"] == ["Make the tests green", "No, fix them"]
    assert [(step.name, step.is_error) for step in run.steps if step.kind == "result"] == [("bash", True)] * 2
    assert run.answer == "The tests fail with exit code 3."
    assert (run.tokens.input, run.tokens.output, run.model, run.cost) == (400, 40, "m", 0)


def said(role: str, text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "message", "message": {"role": role, "content": content, **fields.pop("message", {})}, **fields}


def test_the_first_version_of_pi_is_a_list(tmp_path: Path) -> None:
    run = run_of(
        written(tmp_path / "a.jsonl", {"type": "session", "id": "p"}, said("user", "A"), said("assistant", "a"))
    )

    assert steps_of(run) == ["person: A", "agent: a"]


def test_a_lost_entry_of_pi_loses_only_itself(tmp_path: Path) -> None:
    head = {"type": "session", "version": 3, "id": "p"}
    entries = [said("user", "A", id="1", parentId=None), said("assistant", "a", id="3", parentId="2")]

    assert steps_of(run_of(written(tmp_path / "a.jsonl", head, *entries))) == ["person: A", "agent: a"]


@pytest.mark.parametrize(("reason", "interrupted"), [("aborted", True), ("error", True), ("stop", False)])
def test_how_a_session_of_pi_ends(tmp_path: Path, reason: str, interrupted: bool) -> None:
    end = said("assistant", "a", message={"stopReason": reason})
    run = run_of(written(tmp_path / "a.jsonl", {"type": "session", "id": "p"}, said("user", "A"), end))

    assert run.is_interrupted == interrupted
