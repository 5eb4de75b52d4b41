"""Reads the agent transcripts of Cursor, and the chats in its database."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.sessions import read_sessions, sections_of
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user
from ace.logs.sqlite import json_in, opened, rows_of

__all__ = ["READERS", "CursorReader", "CursorTranscriptReader"]

_SPEAKER: Final = re.compile(r"^(user|assistant):[ \t]*$", re.MULTILINE)
_MARK: Final = re.compile(r"^\[(Thinking|Tool call|Tool result)\][ \t]*(.*)$", re.MULTILINE)
_SEPARATORS: Final = re.compile(r"[^A-Za-z0-9]+")
"""What Cursor replaces by a hyphen in the name of the folder of a project."""
_PERSON: Final = 1
"""The type of a bubble that a person wrote."""


class CursorTranscriptReader:
    """Reads agent transcripts: lines with messages, or text."""

    name = "cursor-transcript"
    title = "Cursor agent transcripts"
    places = ("~/.cursor/projects/*/agent-transcripts/**/*.jsonl", "~/.cursor/projects/*/agent-transcripts/*.txt")
    side_files: tuple[str, ...] = ()
    note = (
        "Most results of tools are not in these files. The time is that of the file. The folder of the project is the "
        "only one on this machine that the name of the folder of its transcripts can mean."
    )

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the fields of the lines, or by the marks in a text."""
        if head.shape == "text":
            speakers = {match.group(1) for match in _SPEAKER.finditer(head.text)}
            is_marked = "<user_query>" in head.text or _MARK.search(head.text) is not None
            return 0.85 if "user" in speakers and (is_marked or "agent-transcripts" in head.path.parts) else 0.0
        objects = [record for record in head.objects if record.get("type") != "turn_ended"]
        fitting = sum(
            record.get("role") in ("user", "assistant")
            and "content" in fields_of(record.get("message"))
            and not record.keys() & {"type", "uuid", "sessionId", "content"}
            for record in objects
        )
        return 0.85 if fitting * 2 > len(objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session."""
        if source.shape == "text":
            session = _Transcript(source)
            session.add_text(source.text())
            yield session.run()
        else:
            yield from read_sessions(source, lambda: _Transcript(source))


class _Transcript:
    """One transcript.

    Args:
        source: The file, which has the id and the time of the session.
    """

    def __init__(self, source: Source) -> None:
        self.builder = RunBuilder()
        self.builder.note(id=source.path.stem, cwd=_project(source.path))
        if source.path.is_file():
            self.builder.at(source.path.stat().st_mtime)
        self._is_interrupted = False

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return False

    def add(self, record: Mapping[str, Any], place: str) -> None:
        if record.get("type") == "turn_ended":
            self._is_interrupted = record.get("status") == "error"
        elif "role" in record:
            self._is_interrupted = False
            add_message(self.builder, fields_of(record.get("message")), place, role=text_of(record["role"]))

    def add_text(self, text: str) -> None:
        for number, (mark, turn) in enumerate(sections_of(_SPEAKER, text), 1):
            self._add_turn(mark.group(1), turn, str(number))

    def _add_turn(self, role: str, text: str, place: str) -> None:
        first = _MARK.search(text)
        said = text[: first.start()] if first else text
        add_message(self.builder, {"role": role, "content": said.strip()}, place)
        for number, (mark, body) in enumerate(sections_of(_MARK, text), 1):
            self._add_section(mark, body, f"{place}.{number}")

    def _add_section(self, mark: re.Match[str], body: str, place: str) -> None:
        """Add a thought, a call or a result, and what follows its indented body: a message."""
        kind, rest = mark.groups()
        indented = re.match(r"(?:\n(?:[ \t]+.*|[ \t]*(?=\n[ \t])))*", body)
        inside = indented.group() if indented else ""
        content = dedent(inside).strip()
        if kind == "Thinking":
            self.builder.thought(f"{rest}\n{content}", place)
        elif kind == "Tool call":
            self.builder.call(rest.strip(), content, place=place)
        else:
            self.builder.result(content, place=place, name=rest.strip())
        self.builder.message("agent", body[len(inside) :], place)

    def run(self) -> Run:
        return self.builder.run(is_interrupted=self._is_interrupted)


def _project(transcript: Path) -> str:
    """Return the folder of the project, which only the name of a folder above the transcript tells.

    That name also fits other folders. If several of them exist, the result is empty.
    """
    names = transcript.absolute().parts
    if "agent-transcripts" not in names:
        return ""
    above = names[: names.index("agent-transcripts")]
    if above[-3:-1] != (".cursor", "projects"):  # a copy elsewhere, perhaps from another machine
        return ""
    found = {os.path.realpath(path) for path in _folders_like(above[-1], transcript.absolute().anchor)}
    return found.pop() if len(found) == 1 else ""


def _folders_like(name: str, folder: str) -> Iterator[str]:
    """Yield the folders below another one whose relative paths Cursor writes as a name."""
    try:
        inside = [entry for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:  # the user may not read every folder on the way
        return
    for entry in inside:
        written = _SEPARATORS.sub("-", entry.name).strip("-")
        if written and written == name:
            yield entry.path
        elif written and name.startswith(f"{written}-"):
            yield from _folders_like(name[len(written) + 1 :], entry.path)


class CursorReader:
    """Reads the chats in the database of Cursor."""

    name = "cursor"
    title = "Cursor chats"
    places = (
        "~/.config/Cursor/User/globalStorage/state.vscdb",
        "~/Library/Application Support/Cursor/User/globalStorage/state.vscdb",
        "$APPDATA/Cursor/User/globalStorage/state.vscdb",
    )
    side_files = ("state.vscdb.backup", "state.vscdb-wal", "state.vscdb-shm")
    note = "The fields of tool calls were not checked against a real file. Chats without messages are skipped."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the table of the chats."""
        return 0.95 if head.shape == "sqlite" and "cursorDiskKV" in head.names else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the chats that have messages."""
        query = (
            "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
        )
        with opened(source.path) as connection:
            for row in rows_of(connection, query):
                chat = fields_of(json_in(row["value"]))
                identity = row["key"].partition(":")[2]
                bubbles = _bubbles(connection, identity, chat)
                if bubbles:
                    yield _chat(identity, chat, bubbles)


def _bubbles(connection: sqlite3.Connection, identity: str, chat: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a chat, which older versions keep in the chat itself."""
    return objects_of(chat.get("conversation")) or [
        {**header, **fields_of(json_in(row["value"]))}
        for header in objects_of(chat.get("fullConversationHeadersOnly"))
        for row in rows_of(
            connection,
            "SELECT value FROM cursorDiskKV WHERE key = ?",
            f"bubbleId:{identity}:{text_of(header.get('bubbleId'))}",
        )
    ]


def _chat(identity: str, chat: Mapping[str, Any], bubbles: Sequence[Mapping[str, Any]]) -> Run:
    builder = RunBuilder()
    builder.note(id=identity, model=fields_of(chat.get("modelConfig")).get("modelName"))
    builder.at(chat.get("createdAt"))
    for number, bubble in enumerate(bubbles, 1):
        _add_bubble(builder, bubble, str(number))
    builder.at(chat.get("lastUpdatedAt"))
    return builder.run(is_interrupted=chat.get("status") in ("error", "aborted"))


def _add_bubble(builder: RunBuilder, bubble: Mapping[str, Any], place: str) -> None:
    tokens, text = fields_of(bubble.get("tokenCount")), text_of(bubble.get("text"))
    builder.spend(tokens.get("inputTokens"), tokens.get("outputTokens"))
    if bubble.get("type") == _PERSON:
        builder.message(*spoken_by_user(text), place)
        return
    builder.thought(text_of(fields_of(bubble.get("thinking")).get("text")), place)
    builder.message("agent", text, place)
    tool = fields_of(bubble.get("toolFormerData"))
    if tool.get("name"):
        _add_tool(builder, tool, place)


def _add_tool(builder: RunBuilder, tool: Mapping[str, Any], place: str) -> None:
    identity = text_of(tool.get("toolCallId")) or f"bubble {place}"
    arguments = next((tool[name] for name in ("rawArgs", "params") if tool.get(name)), "")
    builder.call(text_of(tool["name"]), json_in(arguments) or arguments, identity, place)
    is_rejected = tool.get("userDecision") == "rejected"
    failed = tool.get("status") in ("error", "cancelled") or is_rejected
    output = tool.get("error") or tool.get("result")
    if failed or output:
        is_error = failed or bool(tool.get("error"))
        builder.result(output, identity, place, is_error=is_error, is_rejected=is_rejected)


READERS: Final = (CursorTranscriptReader(), CursorReader())
