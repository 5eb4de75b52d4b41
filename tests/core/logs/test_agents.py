"""Sessions of further coding agents are read, and no reader of a coding agent claims the log of another."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ace.logs import Problem, Run, read_runs
from ace.logs.formats import agents, aider, cline, codex, copilot, cursor, gemini, goose, opencode, pi, vscode
from ace.logs.source import file_source, live_source
from tests.core.logs.log_files import DATA, run_of, steps_of

READERS = [
    reader
    for module in (agents, aider, cline, codex, copilot, cursor, gemini, goose, opencode, pi, vscode)
    for reader in module.READERS
]
FORMATS = {
    "aider.chat.history.md": "aider",
    "cline.messages.json": "cline",
    "cline_api_history.json": "cline",
    "cline_ui_messages.json": "cline-messages",
    "codebuff.json": "codebuff",
    "codex-exec.jsonl": "codex-exec",
    "codex-rollout.jsonl": "codex",
    "codex_rollout.jsonl": "codex",
    "copilot-events.jsonl": "copilot",
    "copilot.jsonl": "copilot",
    "cursor.jsonl": "cursor-transcript",
    "cursor.txt": "cursor-transcript",
    "droid.jsonl": "droid",
    "gemini-stream.jsonl": "gemini-stream",
    "goose.jsonl": "goose",
    "kimi-wire.jsonl": "kimi",
    "kimi.jsonl": "kimi",
    "opencode-export.json": "opencode",
    "opencode.db": "opencode",
    "opencode_export.json": "opencode",
    "pi-session.jsonl": "pi",
    "pi.jsonl": "pi",
    "qwen-session.jsonl": "qwen",
    "qwen.jsonl": "qwen",
    "session-2026-11-28T07-55-cd3f9a06.jsonl": "gemini",
    "vscode_chat.json": "vscode",
}
ASKED = "person: How much is the blue kettle?"
CALL, FAILED = 'get_price {"sku": "KET-2"}', "get_price failed: no such sku KET-2"
UNKNOWN = "agent: I do not know its price."


@pytest.mark.parametrize(
    ("name", "format", "steps"),
    [
        (
            "amp.json",
            "amp",
            [
                ASKED,
                "thought: Ask the shop.",
                CALL,
                FAILED,
                'get_price {"sku": "KET-3"}',
                "get_price returned: 14",
                "agent: It is 14.",
            ],
        ),
        ("ai_studio.json", "ai-studio", [ASKED, "thought: I have no price list.", UNKNOWN]),
        ("droid.jsonl", "droid", [ASKED, CALL, FAILED, UNKNOWN]),
        ("kimi.jsonl", "kimi", [ASKED, "thought: Ask the shop.", CALL, FAILED, UNKNOWN]),
        (
            "codebuff.json",
            "codebuff",
            [
                ASKED,
                "thought: Ask the shop.",
                CALL,
                "get_price failed: Error: no such sku KET-2",
                UNKNOWN,
                "harness: Out of credits",
            ],
        ),
    ],
)
def test_sessions(name: str, format: str, steps: list[str]) -> None:
    run = run_of(DATA / name)

    assert (run.format, steps_of(run)) == (format, steps)


def test_tokens() -> None:
    amp, kimi = run_of(DATA / "amp.json"), run_of(DATA / "kimi.jsonl")

    assert (amp.tokens.input, amp.tokens.output, amp.model) == (30, 7, "m")
    assert (kimi.tokens.input, kimi.tokens.output) == (15, 7)


def test_a_real_session_of_kimi_that_was_resumed() -> None:
    run = run_of(DATA / "kimi-wire.jsonl")

    assert [step.content for step in run.steps if step.speaker == "person"] == ["Make the tests green", "No, fix them"]
    assert [(step.name, step.is_error) for step in run.steps if step.kind == "result"] == [("Shell", True)] * 2
    assert run.answer == "The tests fail with exit code 3."
    assert (run.tokens.input, run.tokens.output) == (400, 40)


def test_the_database_of_hermes(tmp_path: Path) -> None:
    call = [{"id": "c1", "function": {"name": "get_price", "arguments": '{"sku": "KET-2"}'}}]
    output = '\x00json:{"output": "", "error": "no such sku KET-2", "exit_code": 1}'
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("CREATE TABLE sessions (id TEXT, parent_session_id TEXT, started_at REAL)")
        connection.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT,"
            " tool_calls TEXT, tool_call_id TEXT, tool_name TEXT)"
        )
        connection.execute("INSERT INTO sessions VALUES ('s', NULL, 1767607200.0)")
        connection.executemany(
            "INSERT INTO messages (session_id, role, content, tool_calls, tool_call_id) VALUES ('s', ?, ?, ?, ?)",
            [
                ("user", "How much is the blue kettle?", None, None),
                ("assistant", "", json.dumps(call), None),
                ("tool", output, None, "c1"),
                ("assistant", "I do not know its price.", None, None),
            ],
        )

    run = run_of(tmp_path / "state.db")

    assert (run.format, run.id) == ("hermes", "s")
    assert steps_of(run) == [ASKED, CALL, f"get_price failed: {output.removeprefix(chr(0) + 'json:')}", UNKNOWN]


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.name)
def test_no_log_is_claimed_by_the_reader_of_another_format(path: Path) -> None:
    head = file_source(path).head
    claimed = [reader.name for reader in READERS if reader.recognises(head) > 0]

    assert claimed == [FORMATS[path.name]] if path.name in FORMATS else claimed == []


def test_a_folder_of_all_formats_is_read_file_by_file() -> None:
    found = {Path(item.place).name.partition("#")[0]: item.format for item in read_runs(DATA) if isinstance(item, Run)}

    assert {name: found.get(name) for name in FORMATS} == FORMATS


VALUES: Final[tuple[Any, ...]] = (None, True, 3, "x", [], [1, {"a": 1}], {}, {"a": [1]})
FILES = sorted(path for path in DATA.iterdir() if path.name in FORMATS and path.suffix in (".json", ".jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_field_of_another_type_loses_nothing_else(path: Path, tmp_path: Path) -> None:
    reader = next(reader for reader in READERS if reader.name == FORMATS[path.name])
    records = [record.value for record in file_source(path).records()]
    for number, (container, key) in enumerate(places_in(records)):
        kept, container[key] = container[key], VALUES[number % len(VALUES)]
        for run in reader.runs(live_source(records)):
            assert isinstance(run, Problem) or run.to_trace()["schema"] == 1
        container[key] = kept


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the lists and objects in a JSON value, with each of their keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places_in(value[key])
