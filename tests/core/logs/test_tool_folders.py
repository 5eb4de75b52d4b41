"""In the folder of a tool, only its logs are read: the rest may be settings, caches and keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace.logs import Run, read_runs

CODEX = [
    {"timestamp": "2026-05-05T10:00:00Z", "type": "session_meta", "payload": {"id": "a", "cwd": "/w"}},
    {
        "timestamp": "2026-05-05T10:00:01Z",
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]},
    },
]


@pytest.mark.parametrize("home", [".codex", ".config/Code"])
def test_settings_and_keys_of_a_tool_are_no_runs(tmp_path: Path, home: str) -> None:
    folder = tmp_path / home
    (folder / "sessions").mkdir(parents=True)
    lines = "\n".join(json.dumps(record) for record in CODEX)
    (folder / "sessions" / "rollout-1.jsonl").write_text(lines, encoding="utf-8")
    (folder / "auth.json").write_text(json.dumps({"question": "key", "answer": "sk-secret"}), encoding="utf-8")
    (folder / "notes.md").write_text("User: a\nAssistant: b\n", encoding="utf-8")
    (tmp_path / "own.json").write_text(json.dumps({"question": "2+2?", "answer": "4"}), encoding="utf-8")

    found = [item for path in (folder, tmp_path / "own.json") for item in read_runs(path)]

    assert [(run.format, run.task) for run in found if isinstance(run, Run)] == [
        ("codex", "Count."),
        ("unknown", "2+2?"),
    ]
    assert len(found) == 2, "what is skipped is no problem"
    assert [run.task for run in read_runs(folder / "auth.json") if isinstance(run, Run)] == ["key"], "it was named"
