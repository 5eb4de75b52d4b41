"""Transcripts and chats of Cursor are read."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import DATA, names_in, run_of, runs_of, steps_of, written


def test_a_transcript_of_lines() -> None:
    run = run_of(DATA / "cursor.jsonl")

    assert steps_of(run) == [
        "person: How much is the blue kettle?",
        "agent: I ask the shop.",
        'get_price {"sku": "KET-2"}',
        "agent: It is 7.",
        "person: No, 14.",
        "agent: Then it is 14.",
    ]
    assert (run.id, run.answer) == ("cursor", "Then it is 14.")
    assert run.ended is not None
    assert run.ended.timestamp() == pytest.approx((DATA / "cursor.jsonl").stat().st_mtime)


def test_a_transcript_that_is_text() -> None:
    assert steps_of(run_of(DATA / "cursor.txt")) == [
        "person: How much is the blue kettle?",
        "thought: Ask the shop.",
        "get_price sku: KET-2",
        "get_price returned: no such sku KET-2\n\nin any shop",
        "agent: I could not find it.",
        "person: It is 14.",
        "agent: Then it is 14.",
    ]


def transcript(home: Path, project: Path) -> Path:
    name = re.sub("[^A-Za-z0-9]+", "-", str(project)).strip("-")
    path = home / ".cursor" / "projects" / name / "agent-transcripts" / "c" / "c.jsonl"
    path.parent.mkdir(parents=True)
    return written(path, {"role": "user", "message": {"content": [{"type": "text", "text": "A"}]}})


def test_a_transcript_has_the_folder_of_its_project(tmp_path: Path) -> None:
    project = tmp_path / "my_shop.v2" / "web-site"
    project.mkdir(parents=True)

    assert run_of(transcript(tmp_path / "home", project)).cwd == str(project)
    copied = tmp_path / "elsewhere" / "c.jsonl"
    copied.parent.mkdir()
    copied.write_bytes(next(tmp_path.glob("home/**/c.jsonl")).read_bytes())
    assert run_of(copied).cwd == ""


def test_a_transcript_of_one_of_two_folders_or_of_none_has_no_folder(tmp_path: Path) -> None:
    for name in ("a-b/c", "a/b-c"):
        (tmp_path / name).mkdir(parents=True)

    assert run_of(transcript(tmp_path / "home", tmp_path / "a" / "b-c")).cwd == ""
    assert run_of(transcript(tmp_path / "home", tmp_path / "deleted")).cwd == ""


def test_a_turn_that_ended_with_an_error(tmp_path: Path) -> None:
    said = {"role": "user", "message": {"content": [{"type": "text", "text": "<user_query>A</user_query>"}]}}

    assert run_of(written(tmp_path / "a.jsonl", said, {"type": "turn_ended", "status": "error"})).is_interrupted


def database(path: Path, **values: Any) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)")
        rows = [(key, json.dumps(value).encode()) for key, value in values.items()]
        connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
    return path


def test_chats_in_the_database(tmp_path: Path) -> None:
    tool = {"name": "read_file", "rawArgs": '{"path": "a"}', "toolCallId": "t", "status": "error", "result": "no file"}
    rejected = {"name": "rm", "params": '{"path": "b"}', "status": "completed", "userDecision": "rejected"}
    headers = [{"bubbleId": name, "type": 1 if name == "b1" else 2} for name in ("b1", "b2", "b3", "b4")]
    path = database(
        tmp_path / "state.vscdb",
        **{
            "composerData:c1": {
                "fullConversationHeadersOnly": headers,
                "status": "completed",
                "createdAt": 1767607200000,
            },
            "composerData:c2": {"fullConversationHeadersOnly": []},
            "composerData:c3": {"conversation": [{"type": 1, "text": "Old?"}, {"type": 2, "text": "Yes."}]},
            "bubbleId:c1:b1": {"type": 1, "text": "Read a."},
            "bubbleId:c1:b2": {"type": 2, "text": "", "thinking": {"text": "Hm."}, "toolFormerData": tool},
            "bubbleId:c1:b3": {"type": 2, "text": "", "toolFormerData": rejected},
            "bubbleId:c1:b4": {"type": 2, "text": "No a.", "tokenCount": {"inputTokens": 9, "outputTokens": 2}},
            "bubbleId:c9:b1": {"type": 1, "text": "Of another chat."},
        },
    )

    first, old = runs_of(tmp_path)

    assert steps_of(first) == [
        "person: Read a.",
        "thought: Hm.",
        'read_file {"path": "a"}',
        "read_file failed: no file",
        'rm {"path": "b"}',
        "rm failed: ",
        "agent: No a.",
    ]
    assert (first.id, first.tokens.input, first.tokens.output) == ("c1", 9, 2)
    assert steps_of(old) == ["person: Old?", "agent: Yes."]
    assert names_in(path.parent) == ["state.vscdb"]
