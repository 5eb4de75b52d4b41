"""Reads the sessions of Pi."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, sum_of, text_of
from ace.logs.head import LogHead, Record
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.sessions import active_path, read_sessions
from ace.logs.source import Source

__all__ = ["READERS", "PiReader"]


class PiReader:
    """Reads sessions of Pi: the branch that was continued last."""

    name = "pi"
    title = "Pi sessions"
    places = ("~/.pi/agent/sessions/**/*.jsonl",)
    side_files = ("sessions.json", "*.lock", "*.trajectory.jsonl", "*.checkpoint.*.jsonl")
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the first line and the envelope of the messages."""
        begins = any(record.get("type") == "session" and "id" in record for record in head.objects)
        messages = any(
            record.get("type") == "message" and "role" in fields_of(record.get("message")) for record in head.objects
        )
        return 0.8 if begins and (messages or len(head.objects) == 1) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session."""
        yield from read_sessions(source, _Session)


class _Session:
    """One session: a tree of entries, or in the first version a list."""

    def __init__(self) -> None:
        self._header: Mapping[str, Any] = {}
        self._records: list[Record] = []

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return record.get("type") == "session" and bool(self._header)

    def add(self, record: Mapping[str, Any], place: str) -> None:
        if record.get("type") == "session":
            self._header = record
        else:
            self._records.append(Record(record, int(place)))

    def run(self) -> Run:
        builder = RunBuilder()
        header = self._header
        builder.note(id=header.get("id"), cwd=header.get("cwd"))
        builder.at(header.get("timestamp"))
        costs: list[float] = []
        reason = ""
        for record in active_path(self._records, "id", "parentId"):
            entry, place = record.value, str(record.line)
            builder.at(entry.get("timestamp"))
            message = fields_of(entry.get("message"))
            if entry.get("type") == "custom_message":
                builder.message("harness", text_of(entry.get("content")), place)
            elif entry.get("type") == "message":
                _add(builder, message, place)
                cost = fields_of(fields_of(message.get("usage")).get("cost")).get("total")
                costs += [cost] if isinstance(cost, int | float) else []
                reason = text_of(message.get("stopReason"))
        return builder.run(cost=sum(costs) if costs else None, is_interrupted=reason in ("aborted", "error"))


def _add(builder: RunBuilder, message: Mapping[str, Any], place: str) -> None:
    role = message.get("role")
    if role == "bashExecution":  # a command of the person
        failed = message.get("exitCode") not in (None, 0) or message.get("cancelled") is True
        builder.call("bash", {"command": message.get("command")}, f"person {place}", place)
        builder.result(message.get("output"), f"person {place}", place, is_error=failed)
    elif role == "custom":
        builder.message("harness", text_of(message.get("content")), place)
    elif role in ("user", "assistant", "toolResult"):
        add_message(builder, message, place)
        usage = fields_of(message.get("usage"))
        sent = (usage.get(name) for name in ("input", "cacheRead", "cacheWrite"))
        builder.spend(sum_of(*sent), usage.get("output"))
        builder.note(model=message.get("model"))
        builder.message("harness", text_of(message.get("errorMessage")), place)


READERS: Final = (PiReader(),)
