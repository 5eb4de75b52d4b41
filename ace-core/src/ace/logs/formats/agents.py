"""Reads the sessions of further coding agents: Droid, Kimi, Codebuff and Hermes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, sum_of, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.sessions import read_sessions
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user
from ace.logs.sqlite import columns_of, json_in, opened, rows_of

__all__ = ["READERS", "CodebuffReader", "DroidReader", "HermesReader", "KimiReader"]

_UNCHECKED: Final = "Not checked against a real file."


class DroidReader:
    """Reads sessions of Droid, whose messages are Anthropic's."""

    name = "droid"
    title = "Droid sessions"
    places = ("~/.factory/sessions/**/*.jsonl",)
    side_files = ("*.settings.json",)
    note = _UNCHECKED

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the first line."""
        return 0.9 if any(record.get("type") == "session_start" and "id" in record for record in head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session."""
        yield from read_sessions(source, _DroidSession)


class _DroidSession:
    """One session of Droid."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self._id = ""

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return record.get("type") == "session_start" and self._id not in ("", record.get("id"))

    def add(self, record: Mapping[str, Any], place: str) -> None:
        self.builder.at(record.get("timestamp"))
        if record.get("type") == "session_start":
            self._id = text_of(record.get("id"))
            self.builder.note(id=self._id, cwd=record.get("cwd"))
        elif record.get("type") == "message":
            add_message(self.builder, fields_of(record.get("message")), place)

    def run(self) -> Run:
        return self.builder.run()


class KimiReader:
    """Reads the events of sessions of Kimi CLI."""

    name = "kimi"
    title = "Kimi CLI sessions"
    places = ("~/.kimi/sessions/*/*/wire.jsonl",)
    side_files = ("context*.jsonl", "state.json", "metadata.json")
    note = "Sessions of its successor, Kimi Code, are not read."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the envelope of the events."""
        types = {text_of(fields_of(record.get("message")).get("type")) for record in head.objects}
        return 0.9 if types & {"TurnBegin", "StepBegin"} else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session."""
        yield from read_sessions(source, lambda: _KimiSession(source.path.parent.name))


class _KimiSession:
    """One session of Kimi CLI, whose texts and arguments are written in pieces.

    Args:
        name: The id of the session.
    """

    def __init__(self, name: str) -> None:
        self.builder = RunBuilder()
        self.builder.note(id=name)
        self._texts: list[str] = []
        self._call: tuple[str, str, list[str]] | None = None
        self._is_interrupted = False

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return False

    def add(self, record: Mapping[str, Any], place: str) -> None:
        self.builder.at(record.get("timestamp"))
        event = fields_of(record.get("message"))
        self._add_event(text_of(event.get("type")), fields_of(event.get("payload")), place)

    def _add_event(self, kind: str, payload: Mapping[str, Any], place: str) -> None:
        is_text = kind in ("ContentPart", "TextPart") and payload.get("type") == "text"
        if is_text:
            self._texts.append(text_of(payload.get("text")))
        elif kind == "ToolCallPart" and self._call:
            self._call[2].append(text_of(payload.get("arguments_part")))
        else:
            self._finish(place)
        if kind == "TurnBegin":
            self._is_interrupted = False
            said = payload.get("user_input")
            add_message(self.builder, {"content": said}, place, role="user")
        elif kind == "ContentPart" and payload.get("type") == "think":
            self.builder.thought(text_of(payload.get("think")), place)
        elif kind == "ToolCall":
            function = fields_of(payload.get("function"))
            arguments = [text_of(function.get("arguments"))]
            self._call = (text_of(function.get("name")), text_of(payload.get("id")), arguments)
        elif kind == "ToolResult":
            self._add_result(payload, place)
        elif kind == "StatusUpdate":
            usage = fields_of(payload.get("token_usage"))
            sent = (usage.get(name) for name in ("input_other", "input_cache_read", "input_cache_creation"))
            self.builder.spend(sum_of(*sent), usage.get("output"))
        elif kind == "StepInterrupted":
            self._is_interrupted = True
        elif kind == "SubagentEvent":
            event = fields_of(payload.get("event"))
            self._add_event(text_of(event.get("type")), fields_of(event.get("payload")), place)

    def _add_result(self, payload: Mapping[str, Any], place: str) -> None:
        value = fields_of(payload.get("return_value"))
        message = {
            "content": value.get("output") or value.get("message"),
            "is_error": value.get("is_error") is True,
            "tool_call_id": payload.get("tool_call_id"),
        }
        add_message(self.builder, message, place, role="tool")

    def _finish(self, place: str) -> None:
        """Add the text or the call whose pieces were collected."""
        self.builder.message("agent", "".join(self._texts), place)
        self._texts = []
        if self._call:
            name, identity, pieces = self._call
            arguments = "".join(pieces)
            self.builder.call(name, json_in(arguments) or arguments, identity, place)
            self._call = None

    def run(self) -> Run:
        self._finish("")
        return self.builder.run(is_interrupted=self._is_interrupted)


class CodebuffReader:
    """Reads chats of Codebuff."""

    name = "codebuff"
    title = "Codebuff chats"
    places = ("~/.config/manicode/projects/*/chats/*/chat-messages.json",)
    side_files = ("run-state.json", "log.jsonl")
    note = _UNCHECKED

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the fields of the messages."""
        fitting = sum(record.get("variant") in ("ai", "user", "agent", "error") for record in head.objects)
        return 0.85 if head.shape == "list" and fitting * 2 > len(head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the chat."""
        builder = RunBuilder()
        builder.note(id=source.path.parent.name)
        for record in source.records():
            message, place = fields_of(record.value), str(record.line)
            builder.at(message.get("timestamp"))
            blocks, text = objects_of(message.get("blocks")), text_of(message.get("content"))
            if message.get("variant") == "user":
                builder.message(*spoken_by_user(text), place)
            elif message.get("variant") == "error":
                builder.message("harness", text, place)
            else:
                _add_blocks(builder, blocks, place)
                builder.message("agent", "" if blocks else text, place)
        yield builder.run()


def _add_blocks(builder: RunBuilder, blocks: Sequence[Mapping[str, Any]], place: str) -> None:
    for number, block in enumerate(blocks, 1):
        spot, kind, text = f"{place}.{number}", block.get("type"), text_of(block.get("content"))
        if kind == "text" and block.get("textType") == "reasoning":
            builder.thought(text, spot)
        elif kind == "text":
            builder.message("agent", text, spot)
        elif kind == "tool":
            identity = text_of(block.get("toolCallId"))
            builder.call(text_of(block.get("toolName")), block.get("input"), identity, spot)
            if block.get("output") is not None:
                add_message(builder, {"content": block["output"], "tool_call_id": identity}, spot, role="tool")
        elif kind == "agent":
            _add_blocks(builder, objects_of(block.get("blocks")), spot)


class HermesReader:
    """Reads the database of Hermes."""

    name = "hermes"
    title = "Hermes sessions"
    places = ("~/.hermes/state.db",)
    side_files: tuple[str, ...] = ()
    note = _UNCHECKED

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the columns of the messages."""
        if head.shape != "sqlite" or not {"sessions", "messages"} <= set(head.names):
            return 0.0
        needed = {"session_id", "role", "content", "tool_calls", "tool_call_id"}
        return 0.9 if needed <= columns_of(head.path, "messages") else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the sessions."""
        with opened(source.path) as connection:
            for session in rows_of(connection, "SELECT * FROM sessions ORDER BY started_at, id"):
                run = _hermes_run(connection, session)
                if run.steps:
                    yield run


def _hermes_run(connection: sqlite3.Connection, session: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    identity, parent = text_of(session.get("id")), text_of(session.get("parent_session_id"))
    builder.note(id=identity, model=session.get("model"), parent=parent)
    builder.at(session.get("started_at"))
    builder.spend(session.get("input_tokens"), session.get("output_tokens"))
    rows = rows_of(connection, "SELECT * FROM messages WHERE session_id = ? ORDER BY id", session["id"])
    for number, row in enumerate(rows, 1):
        builder.at(row.get("timestamp"))
        message = {
            "role": row.get("role"),
            "content": text_of(row.get("content")).removeprefix("\x00json:"),
            "reasoning": row.get("reasoning"),
            "tool_calls": json_in(row.get("tool_calls")),
            "tool_call_id": row.get("tool_call_id"),
            "tool_name": row.get("tool_name"),
        }
        add_message(builder, message, str(number))
    builder.at(session.get("ended_at"))
    return builder.run()


READERS: Final = (DroidReader(), KimiReader(), CodebuffReader(), HermesReader())
