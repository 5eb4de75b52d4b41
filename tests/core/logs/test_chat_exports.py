"""Exports of ChatGPT and Claude.ai."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import run_of, runs_of, steps_of, written


def node(name: str, parent: str | None, message: dict[str, Any] | None, *children: str) -> dict[str, Any]:
    return {name: {"id": name, "parent": parent, "children": list(children), "message": message}}


def said(role: str, *parts: Any, kind: str = "text", **fields: Any) -> dict[str, Any]:
    return {"author": {"role": role}, "content": {"content_type": kind, "parts": list(parts)}, **fields}


def other(role: str, content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"author": {"role": role, "name": fields.pop("name", None)}, "content": content, **fields}


IMAGE = {"content_type": "image_asset_pointer"}
CUSTOM = {"is_user_system_message": True}
THOUGHTS = {"content_type": "thoughts", "thoughts": [{"summary": "S", "content": "Look."}]}
CODE = {"content_type": "code", "text": "days()"}
OUTPUT = {"content_type": "execution_output", "text": "Traceback (most recent call last): x"}
CONVERSATION = {
    "title": "Kettle",
    "conversation_id": "c1",
    "current_node": "h",
    "mapping": {
        **node("r", None, None, "s"),
        **node("s", "r", said("system", ""), "i"),
        **node("i", "s", said("user", "I sell kettles.", metadata=CUSTOM), "a"),
        **node("a", "i", said("user", IMAGE, "Days to return?", kind="multimodal_text"), "b", "d"),
        **node("b", "a", said("assistant", "30")),
        **node("d", "a", other("assistant", THOUGHTS), "e"),
        **node("e", "d", other("assistant", CODE, recipient="python"), "f"),
        **node("f", "e", other("tool", OUTPUT, name="python"), "g"),
        **node("g", "f", said("assistant", "14", metadata={"model_slug": "m"}), "h"),
        **node("h", "g", said("user", "Thanks.")),
    },
}
STEPS = [
    "harness: I sell kettles.",
    "person: [image_asset_pointer]\nDays to return?",
    "thought: Look.",
    "python days()",
    "python failed: Traceback (most recent call last): x",
    "agent: 14",
    "person: Thanks.",
]


def export(folder: Path, conversations: Any, **others: Any) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("chat.html", "<html>")
        for name, value in {"conversations": conversations, **others}.items():
            file.writestr(f"{name}.json", json.dumps(value))
    return path


def test_the_branch_that_was_seen_last(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "conversations.json", [CONVERSATION]))

    assert steps_of(run) == STEPS
    assert (run.id, run.answer, run.model) == ("c1", "14", "m")


def test_an_archive_with_a_thumb(tmp_path: Path) -> None:
    thumb = {"message_id": "g", "rating": "thumbs_down", "content": json.dumps({"tags": [], "text": "It is 15."})}

    run = run_of(export(tmp_path, [CONVERSATION], message_feedback=[thumb], user={"id": "u"}))

    assert (run.success, run.reason, steps_of(run)) == (False, "It is 15.", STEPS)


def test_side_files_of_an_export_are_no_logs(tmp_path: Path) -> None:
    written(tmp_path / "conversations.json", [CONVERSATION])
    written(tmp_path / "message_feedback.json", [{"id": "g", "rating": "thumbs_up"}])
    written(tmp_path / "user.json", {"id": "u"})

    assert [(run.id, run.success) for run in runs_of(tmp_path)] == [("c1", True)]


@pytest.mark.parametrize("current", [None, "gone"])
def test_without_a_current_node_the_last_leaf_counts(tmp_path: Path, current: str | None) -> None:
    run = run_of(written(tmp_path / "conversations.json", [{**CONVERSATION, "current_node": current}]))

    assert steps_of(run) == STEPS


def test_a_circle_ends(tmp_path: Path) -> None:
    mapping = {**node("a", "b", said("user", "Hi")), **node("b", "a", said("assistant", "Hello"))}

    run = run_of(written(tmp_path / "conversations.json", [{"mapping": mapping, "current_node": "b"}]))

    assert steps_of(run) == ["person: Hi", "agent: Hello"]


def claude(sender: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"uuid": text[:3], "sender": sender, "text": text, **fields}


BLOCKS = [
    {"type": "thinking", "thinking": "Look."},
    {"type": "tool_use", "id": "t", "name": "search", "input": {"q": "k"}},
    {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "down"},
    {"type": "text", "text": "14"},
]
CHAT = {
    "uuid": "k1",
    "name": "Kettle",
    "chat_messages": [
        claude("human", "Days to return?", attachments=[{"file_name": "a.txt", "extracted_content": "Kettles: 14"}]),
        claude("assistant", "", content=BLOCKS),
        claude("human", "Sure?", content=[{"type": "text", "text": ""}]),
    ],
}


@pytest.mark.parametrize("is_archive", [True, False])
def test_an_export_of_claude(tmp_path: Path, is_archive: bool) -> None:
    chats = [CHAT, {"uuid": "empty", "name": "", "chat_messages": []}]
    path = export(tmp_path, chats) if is_archive else written(tmp_path / "conversations.json", chats)

    run = run_of(path)

    assert steps_of(run) == [
        "person: Days to return?\nKettles: 14",
        "thought: Look.",
        'search {"q": "k"}',
        "search failed: down",
        "agent: 14",
        "person: Sure?",
    ]
    assert run.id == "k1"
