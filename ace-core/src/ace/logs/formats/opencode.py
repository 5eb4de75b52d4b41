"""Reads the sessions of OpenCode and Kilo: their database, the folder of older versions, and exported sessions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, sum_of, text_of
from ace.logs.head import LogHead
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user
from ace.logs.sqlite import json_in, opened, rows_of

__all__ = ["READERS", "OpenCodeReader"]

_TABLES: Final = frozenset({"session", "message", "part"})
_SKIPPED: Final = ("step-start", "step-finish", "snapshot", "patch", "agent", "compaction")
"""Parts that only say what the program did; the tokens of a step are also those of its message."""


_Message = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]
"""The fields of a message, and its parts."""


class OpenCodeReader:
    """Reads sessions of OpenCode. Those of sub-agents are steps of the session that started them."""

    name = "opencode"
    title = "OpenCode and Kilo sessions"
    places = (
        "$XDG_DATA_HOME/opencode/opencode*.db",
        "~/.local/share/opencode/opencode*.db",
        "~/.local/share/opencode/storage",
        "~/.local/share/kilo/kilo.db",
    )
    side_files = ("*.db-wal", "*.db-shm", "log/*.log")
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the tables, the folders, or the fields of an export."""
        if head.shape == "sqlite":
            return 0.95 if set(head.names) >= _TABLES else 0.0
        if head.shape == "folder":
            is_storage = {"session", "message"} <= set(head.names)
            return 0.95 if is_storage and any(head.path.glob("message/*/msg_*.json")) else 0.0
        exports = [record for record in head.objects if _is_export(record)]
        return 0.9 if exports and len(exports) * 2 > len(head.records) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the sessions in the order in which they began."""
        if source.shape == "sqlite":
            with opened(source.path) as connection:
                yield from _in_database(connection).runs()
        elif source.shape == "folder":
            yield from _in_folder(source).runs()
        else:
            for record in source.records():
                if _is_export(record.value):
                    yield from _exported(record.value).runs()


def _exported(value: Mapping[str, Any]) -> _Sessions:
    messages = [(_info(message), objects_of(fields_of(message).get("parts"))) for message in value["messages"]]
    info = fields_of(value.get("info"))
    return _Sessions({text_of(info.get("id")) or "export": info}, lambda _: messages)


def _is_export(value: object) -> bool:
    messages = fields_of(value).get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    return "role" in _info(first) and isinstance(fields_of(first).get("parts"), list)


def _info(message: object) -> Mapping[str, Any]:
    return fields_of(fields_of(message).get("info"))


class _Sessions:
    """The sessions of one source, each of which is loaded when it is needed.

    Args:
        infos: The fields of the sessions by their ids, in order.
        load: Returns the messages of a session.
    """

    def __init__(self, infos: Mapping[str, Mapping[str, Any]], load: Callable[[str], Sequence[_Message]]) -> None:
        self._infos = infos
        self._load = load
        self._called: set[str] = set()

    def runs(self) -> Iterator[Run]:
        """Yield the runs. A sub-agent that no call names is a run of its own, with its parent."""
        later = [identity for identity, info in self._infos.items() if _parent(info) in self._infos]
        for identity in [*(identity for identity in self._infos if identity not in set(later)), *later]:
            if identity not in self._called:
                run = self.run(identity)
                if run.steps:
                    yield run

    def run(self, identity: str) -> Run:
        info, builder = self._infos[identity], RunBuilder()
        builder.note(id=info.get("id"), cwd=info.get("directory"), parent=_parent(info))
        builder.at(fields_of(info.get("time")).get("created") or info.get("time_created"))
        messages = self._load(identity)
        is_interrupted = self._add(builder, messages, "", is_sub_agent=bool(_parent(info)))
        costs = [cost for message, _ in messages if isinstance(cost := message.get("cost"), int | float)]
        return builder.run(cost=sum(costs) if costs else None, is_interrupted=is_interrupted)

    def _add(self, builder: RunBuilder, messages: Sequence[_Message], above: str, *, is_sub_agent: bool) -> bool:
        """Add the messages of a session, and return whether it was interrupted."""
        is_interrupted = False
        for number, (message, parts) in enumerate(messages, 1):
            place = f"{above}{number}"
            _add_figures(builder, message)
            for index, part in enumerate(parts, 1):
                if part.get("type") == "tool":
                    self._add_tool(builder, part, f"{place}.{index}")
                else:
                    _add_part(builder, message, part, f"{place}.{index}", is_sub_agent=is_sub_agent)
            builder.at(fields_of(message.get("time")).get("completed"))
            error = fields_of(message.get("error"))
            is_interrupted = error.get("name") == "MessageAbortedError" or builder.is_interrupted
            said = fields_of(error.get("data")).get("message") or error.get("name")
            builder.message("harness", text_of(said), place)
        return is_interrupted

    def _add_tool(self, builder: RunBuilder, part: Mapping[str, Any], place: str) -> None:
        state, identity = fields_of(part.get("state")), text_of(part.get("callID"))
        metadata = fields_of(state.get("metadata"))
        builder.call(text_of(part.get("tool")), state.get("input"), identity, place)
        child = text_of(metadata.get("sessionId") or metadata.get("sessionID"))
        if child in self._infos and child not in self._called and _parent(self._infos[child]):
            self._called.add(child)
            self._add(builder, self._load(child), f"{place}.", is_sub_agent=True)
        if state.get("status") in ("completed", "error"):
            failed = state["status"] == "error" or metadata.get("exit") not in (None, 0)
            output = state.get("error") if state["status"] == "error" else state.get("output")
            builder.result(output, identity, place, is_error=failed)


def _in_database(connection: sqlite3.Connection) -> _Sessions:
    def load(identity: str) -> Sequence[_Message]:
        found: list[_Message] = []
        query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        for row in rows_of(connection, query, identity):
            parts = rows_of(connection, "SELECT data FROM part WHERE message_id = ? ORDER BY id", row["id"])
            found.append((fields_of(json_in(row["data"])), [fields_of(json_in(part["data"])) for part in parts]))
        return found

    rows = rows_of(connection, "SELECT * FROM session ORDER BY time_created, id")
    return _Sessions({row["id"]: row for row in rows}, load)


def _in_folder(source: Source) -> _Sessions:
    """Return the sessions in a folder, except for those that a newer version has moved into its database."""

    def load(identity: str) -> Sequence[_Message]:
        found: list[_Message] = []
        for message in sorted((source.path / "message" / identity).glob("*.json")):
            parts = sorted((source.path / "part" / message.stem).glob("*.json"))
            found.append((_loaded(message, source), [_loaded(part, source) for part in parts]))
        return found

    moved = {identity for path in source.path.parent.glob("*.db") for identity in _session_ids(path)}
    # The ids of later sessions come first in the order of their names.
    paths = sorted(source.path.glob("session/*/*.json"), key=lambda path: path.name, reverse=True)
    return _Sessions({path.stem: _loaded(path, source) for path in paths if path.stem not in moved}, load)


def _session_ids(path: Path) -> list[str]:
    try:
        with opened(path) as connection:
            return [row["id"] for row in rows_of(connection, "SELECT id FROM session")]
    except sqlite3.Error:  # another database
        return []


def _loaded(path: Path, source: Source) -> Mapping[str, Any]:
    try:
        return fields_of(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        source.problems.append(Problem(str(path), None, f"not readable as JSON: {error}"))
        return {}


def _parent(info: Mapping[str, Any]) -> str:
    return text_of(info.get("parentID") or info.get("parent_id"))


def _add_figures(builder: RunBuilder, message: Mapping[str, Any]) -> None:
    """Note when a message was written, by which model, and its tokens, of which cached ones are counted apart."""
    builder.at(fields_of(message.get("time")).get("created"))
    builder.note(model=message.get("modelID"), cwd=fields_of(message.get("path")).get("cwd"))
    tokens = fields_of(message.get("tokens"))
    if tokens:
        cache = fields_of(tokens.get("cache"))
        builder.spend(
            sum_of(tokens.get("input"), cache.get("read"), cache.get("write")),
            sum_of(tokens.get("output"), tokens.get("reasoning")),
        )


def _add_part(
    builder: RunBuilder, message: Mapping[str, Any], part: Mapping[str, Any], place: str, *, is_sub_agent: bool
) -> None:
    kind, text = part.get("type"), text_of(part.get("text") or part.get("prompt") or part.get("filename"))
    if kind == "reasoning":
        builder.thought(text, place)
    elif kind == "retry":
        builder.message("harness", text_of(fields_of(fields_of(part.get("error")).get("data")).get("message")), place)
    elif part.get("synthetic") or part.get("ignored") or kind == "subtask" or message.get("summary") is True:
        builder.message("harness", text, place)
    elif kind in _SKIPPED:
        return
    elif message.get("role") == "assistant":
        builder.message("agent", text, place)
    else:
        speaker, said = spoken_by_user(f"[file] {text}" if kind == "file" else text)
        if is_sub_agent and not builder.steps:
            builder.note(task=said)
        builder.message("harness" if is_sub_agent else speaker, said, place)


READERS: Final = (OpenCodeReader(),)
