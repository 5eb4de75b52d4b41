"""Sessions of OpenCode are read from its database, from the folder of older versions, and from an export."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ace.logs import Run
from tests.core.logs.log_files import DATA, names_in, run_of, runs_of, steps_of, written

Message = tuple[dict[str, Any], list[dict[str, Any]]]


def user(text: str, **part: Any) -> Message:
    return {"role": "user", "time": {"created": 1785578400000}}, [{"type": "text", "text": text, **part}]


def agent(*parts: dict[str, Any], **info: Any) -> Message:
    tokens = {"input": 5, "output": 2, "reasoning": 1, "cache": {"read": 10, "write": 0}}
    return {"role": "assistant", "modelID": "m", "time": {"created": 1785578401000}, "tokens": tokens, **info}, [*parts]


def tool(status: str, **state: Any) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool": "read",
        "callID": "c1",
        "state": {"status": status, "input": {"path": "c"}, **state},
    }


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def exported(path: Path, *messages: Message, **info: Any) -> Run:
    values = [{"info": info, "parts": parts} for info, parts in messages]
    return run_of(written(path / "export.json", {"info": {"id": "ses_1", **info}, "messages": values}))


def stored(path: Path, sessions: dict[str, list[Message]], parents: dict[str, str]) -> Path:
    """Write the tables of a database whose write-ahead log was not copied into it."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, time_created INTEGER)")
        connection.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
        connection.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        for number, (name, messages) in enumerate(sessions.items()):
            connection.execute("INSERT INTO session VALUES (?, ?, '/shop', ?)", (name, parents.get(name), number))
            for at, (info, parts) in enumerate(messages):
                key = f"{name}-{at}"
                connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (key, name, at, json.dumps(info)))
                for index, part in enumerate(parts):
                    values = (f"{key}-{index}", key, name, json.dumps(part))
                    connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", values)
    return path


@pytest.mark.parametrize("name", ["opencode-export.json", "opencode.db"])
def test_a_session_of_a_real_opencode(name: str) -> None:
    before = names_in(DATA)
    run = run_of(DATA / name)

    assert run.task == '"Make the tests green"'
    assert [(step.kind, step.name, step.is_error) for step in run.steps if step.kind != "message"] == [
        ("call", "bash", False),
        ("result", "bash", True),
    ]
    assert run.answer == "The tests fail with exit code 3. LESSON opencode"
    assert (run.tokens.input, run.tokens.output, run.model, run.cwd) == (200, 20, "m", "/home/dev/shop")
    assert names_in(DATA) == before


def test_a_short_export() -> None:
    assert steps_of(run_of(DATA / "opencode_export.json")) == [
        "person: How many days may a customer return the blue kettle?",
        'get_policy {"sku": "KET-2"}',
        "get_policy failed: HTTP 404: no such sku KET-2",
        "agent: A customer may return it within 30 days.",
    ]


def test_parts_of_messages(tmp_path: Path) -> None:
    run = exported(
        tmp_path,
        user("Which port?"),
        user("Called the Read tool", synthetic=True),
        agent({"type": "reasoning", "text": "Read it."}, tool("error", error="no file"), {"type": "step-finish"}),
        agent(text("We spoke of a port."), summary=True),
        agent(text("8080."), {"type": "patch", "hash": "x"}),
    )

    assert steps_of(run) == [
        "person: Which port?",
        "harness: Called the Read tool",
        "thought: Read it.",
        'read {"path": "c"}',
        "read failed: no file",
        "harness: We spoke of a port.",
        "agent: 8080.",
    ]
    assert (run.id, run.tokens.input, run.tokens.output) == ("ses_1", 45, 9)


@pytest.mark.parametrize(
    "last",
    [
        agent(text("Hm"), error={"name": "MessageAbortedError", "data": {"message": "Aborted"}}),
        agent(tool("running")),
        agent(tool("pending")),
    ],
)
def test_interruptions(tmp_path: Path, last: Message) -> None:
    assert exported(tmp_path, user("Port?"), last).is_interrupted
    assert not exported(tmp_path, user("Port?"), last, user("Go on."), agent(text("8080."))).is_interrupted


def test_a_database_is_read_while_it_is_written_and_stays_as_it_is(tmp_path: Path) -> None:
    path = stored(tmp_path / "opencode.db", {"ses_1": [user("Port?"), agent(text("8080."))]}, {})
    with sqlite3.connect(path) as writer:
        writer.execute("INSERT INTO session VALUES ('ses_2', NULL, '/shop', 9)")
        before = names_in(tmp_path)
        found = runs_of(path)
        assert names_in(tmp_path) == before

    assert [steps_of(run) for run in found] == [["person: Port?", "agent: 8080."]]


def test_a_copied_database_is_read_with_its_log(tmp_path: Path) -> None:
    original = tmp_path / "original.db"
    writer = sqlite3.connect(original)
    stored(original, {"ses_1": [user("Port?"), agent(text("8080."))]}, {})
    copy = tmp_path / "copy" / "opencode.db"
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        Path(f"{copy}{suffix}").write_bytes(Path(f"{original}{suffix}").read_bytes())
    writer.close()

    assert [run.answer for run in runs_of(copy)] == ["8080."]
    assert names_in(copy.parent) == ["opencode.db", "opencode.db-wal"]


def test_the_steps_of_a_sub_agent_are_those_of_its_parent(tmp_path: Path) -> None:
    task = {"type": "tool", "tool": "task", "callID": "t", "state": {"status": "completed", "input": "look"}}
    task["state"] |= {"output": "fine", "metadata": {"sessionId": "ses_2"}}  # type: ignore[operator]
    sessions = {
        "ses_1": [user("Check."), agent(task, text("It is fine."))],
        "ses_2": [user("look"), agent(text("fine"))],
        "ses_3": [user("by itself"), agent(text("ok"))],
    }
    path = stored(tmp_path / "opencode.db", sessions, {"ses_2": "ses_1", "ses_3": "ses_1"})

    first, other = runs_of(path)

    assert steps_of(first) == [
        "person: Check.",
        "task look",
        "harness: look",
        "agent: fine",
        "task returned: fine",
        "agent: It is fine.",
    ]
    assert (other.id, other.parent, other.task) == ("ses_3", "ses_1", "by itself")


def test_the_folder_of_older_versions(tmp_path: Path) -> None:
    storage = tmp_path / "opencode" / "storage"
    written(storage / "session" / "project" / "ses_1.json", {"id": "ses_1", "directory": "/shop"})
    written(storage / "todo" / "ses_1.json", [{"content": "no run"}])
    for number, (info, parts) in enumerate([user("Port?"), agent(text("8080."))]):
        written(storage / "message" / "ses_1" / f"msg_{number}.json", info)
        for part in parts:
            written(storage / "part" / f"msg_{number}" / "prt_0.json", part)

    assert [(run.id, steps_of(run)) for run in runs_of(tmp_path)] == [("ses_1", ["person: Port?", "agent: 8080."])]
    stored(tmp_path / "opencode" / "opencode.db", {"ses_1": [user("Port?"), agent(text("8080."))]}, {})
    assert [run.id for run in runs_of(tmp_path)] == ["ses_1"]
