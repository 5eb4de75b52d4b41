"""Reads the sessions of Goose: its database, and the files of older versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.sessions import read_sessions
from ace.logs.source import Source
from ace.logs.sqlite import columns_of, json_in, opened, rows_of

__all__ = ["READERS", "GooseReader"]

_CALLS: Final = ("toolRequest", "frontendToolRequest")


class GooseReader:
    """Reads sessions of Goose."""

    name = "goose"
    title = "Goose sessions"
    places = (
        "$GOOSE_PATH_ROOT/data/sessions/sessions.db",
        "~/.local/share/goose/sessions/sessions.db",
        "~/.local/share/goose/sessions/*.jsonl",
        "~/Library/Application Support/goose/sessions/sessions.db",
    )
    side_files: tuple[str, ...] = ()
    note = "The columns of the database were not checked against a real one."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the columns of the database, by the first line, or by the blocks of messages."""
        if head.shape == "sqlite":
            is_goose = "messages" in head.names and "content_json" in columns_of(head.path, "messages")
            return 0.95 if is_goose else 0.0
        if any({"working_dir", "message_count"} <= record.keys() for record in head.objects[:1]):
            return 0.95
        messages = [record for record in head.objects if {"role", "created", "content"} <= record.keys()]
        blocks = [block for message in messages for block in objects_of(message["content"])]
        calls = any(block.get("type") in (*_CALLS, "toolResponse") for block in blocks)
        return 0.9 if calls else 0.7 if len(messages) * 2 > len(head.objects) and blocks else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the sessions."""
        if source.shape != "sqlite":
            yield from read_sessions(source, _Session)
            return
        with opened(source.path) as connection:
            for session in rows_of(connection, "SELECT * FROM sessions ORDER BY created_at, id"):
                run = _stored(connection, session)
                if run.steps:
                    yield run


class _Session:
    """One session in a file, whose first line may describe it."""

    def __init__(self) -> None:
        self.builder = RunBuilder()

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return "working_dir" in record and bool(self.builder.steps)

    def add(self, record: Mapping[str, Any], place: str) -> None:
        if "role" in record:
            _add(self.builder, record, place)
        else:
            self.builder.note(cwd=record.get("working_dir"))

    def run(self) -> Run:
        return self.builder.run()


def _stored(connection: sqlite3.Connection, session: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    builder.note(
        id=text_of(session.get("id")),
        cwd=session.get("working_dir"),
        model=fields_of(json_in(session.get("model_config_json"))).get("model_name"),
    )
    sent, written = session.get("accumulated_input_tokens"), session.get("accumulated_output_tokens")
    builder.spend(sent or session.get("input_tokens"), written or session.get("output_tokens"))
    is_by_person = session.get("session_type", "user") in (None, "user")
    query = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"
    for number, row in enumerate(rows_of(connection, query, session["id"]), 1):
        metadata = fields_of(json_in(row.get("metadata_json")))
        message = {
            "role": row.get("role"),
            "created": row.get("created_timestamp"),
            "content": json_in(row.get("content_json")),
            "metadata": metadata if is_by_person else {**metadata, "userVisible": False},
        }
        _add(builder, message, str(number))
    return builder.run()


def _add(builder: RunBuilder, message: Mapping[str, Any], place: str) -> None:
    """Add a message. What the person does not see, such as a summary, was written by the program."""
    builder.at(message.get("created"))
    is_hidden = fields_of(message.get("metadata")).get("userVisible") is False
    role = "system" if is_hidden and message.get("role") == "user" else text_of(message.get("role"))
    blocks = objects_of(message.get("content"))
    add_message(builder, {"content": [_plain(block) for block in blocks if not _is_notice(block)]}, place, role=role)
    for block in filter(_is_notice, blocks):
        builder.message("harness", text_of(block.get("msg") or block.get("data")), place)


def _is_notice(block: Mapping[str, Any]) -> bool:
    return block.get("type") in ("systemNotification", "actionRequired")


def _plain(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a call or a result as Anthropic writes it, and every other block as it is."""
    if block.get("type") in _CALLS:
        call = fields_of(block.get("toolCall"))
        function = fields_of(call.get("value"))
        arguments = function.get("arguments", call.get("error"))
        return {"type": "tool_use", "id": block.get("id"), "name": function.get("name"), "input": arguments}
    if block.get("type") != "toolResponse":
        return block
    # The value is a list of blocks, or in newer versions an object with such a list and a flag.
    result = fields_of(block.get("toolResult"))
    value = result.get("value")
    is_error = result.get("status") == "error" or fields_of(value).get("isError") is True
    content: object = result.get("error") or fields_of(value).get("content", value)
    return {"type": "tool_result", "tool_use_id": block.get("id"), "content": content, "is_error": is_error}


READERS: Final = (GooseReader(),)
