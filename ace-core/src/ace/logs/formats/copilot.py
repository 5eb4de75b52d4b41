"""Reads the sessions of Copilot CLI, whose event names VS Code's Copilot extension uses too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.sessions import read_sessions
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user

__all__ = ["READERS", "CopilotReader"]

_EVENTS: Final = (
    *("session.start", "user.message", "assistant.message"),
    *("tool.execution_start", "tool.execution_complete"),
)


class CopilotReader:
    """Reads sessions of Copilot CLI."""

    name = "copilot"
    title = "Copilot CLI sessions"
    places = ("~/.copilot/session-state/**/*.jsonl",)
    side_files = ("workspace.yaml", "checkpoints/*", "rewind-file-snapshots/*")
    note = "session-store.db is not read. Which senders of a message are persons was not checked against a real file."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the names of the events."""
        fitting = (record.get("type") in _EVENTS and isinstance(record.get("data"), dict) for record in head.objects)
        return 0.95 if any(fitting) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session."""
        yield from read_sessions(source, _Session)


class _Session:
    """One session."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self._id = ""
        self._called: set[str] = set()
        self._lengths: dict[str, int] = {}
        self._usage: list[Mapping[str, Any]] = []
        self._is_interrupted = False

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        identity = fields_of(record.get("data")).get("sessionId")
        return record.get("type") == "session.start" and self._id not in ("", identity)

    def add(self, record: Mapping[str, Any], place: str) -> None:
        kind, data = record.get("type"), fields_of(record.get("data"))
        self._lengths[text_of(record.get("id"))] = len(self.builder.steps)
        self.builder.at(record.get("timestamp"))
        if kind == "session.start":
            self._id = text_of(data.get("sessionId"))
            cwd = fields_of(data.get("context")).get("cwd")
            self.builder.note(id=self._id, cwd=cwd, model=data.get("selectedModel"))
        elif kind == "user.message":
            self._add_user(data, place)
        elif kind == "assistant.message":
            self._add_assistant(data, place)
        elif kind == "tool.execution_start":
            self._add_call(data, place)
        elif kind == "tool.execution_complete":
            self._add_result(data, place)
        else:
            self._add_event(text_of(kind), data, place)

    def _add_user(self, data: Mapping[str, Any], place: str) -> None:
        speaker, said = spoken_by_user(text_of(data.get("content")))
        by_person = data.get("source") in (None, "", "user") and not data.get("parentToolCallId")
        self.builder.message(speaker if by_person else "harness", said, place)
        self._is_interrupted = False

    def _add_assistant(self, data: Mapping[str, Any], place: str) -> None:
        self.builder.note(model=data.get("model"))
        content = {"reasoningText": data.get("reasoningText"), "content": data.get("content")}
        add_message(self.builder, content, place, role="assistant")
        for request in objects_of(data.get("toolRequests")):
            self._add_call(request, place)

    def _add_call(self, data: Mapping[str, Any], place: str) -> None:
        """Add a call, which a message requests and an event starts."""
        identity = text_of(data.get("toolCallId"))
        if identity not in self._called:
            self._called.add(identity)
            call = {**data, "name": data.get("name") or data.get("toolName")}
            add_message(self.builder, call, place, role="call")

    def _add_result(self, data: Mapping[str, Any], place: str) -> None:
        code = fields_of(data.get("shellExecution")).get("exitCode")  # success says only that the command was started
        failed = data.get("success") is False or code not in (None, 0)
        result, error = fields_of(data.get("result")), fields_of(data.get("error"))
        output = error.get("message") if error else result.get("content", data.get("result"))
        self.builder.result(output, text_of(data.get("toolCallId")), place, is_error=failed)

    def _add_event(self, kind: str, data: Mapping[str, Any], place: str) -> None:
        if kind == "abort":
            self._is_interrupted = True
        elif kind == "session.error":
            self.builder.message("harness", text_of(data.get("message")), place)
        elif kind == "session.snapshot_rewind":
            self.builder.rewind(self._lengths.get(text_of(data.get("upToEventId")), len(self.builder.steps)))
        elif kind == "session.model_change":
            self.builder.note(model=data.get("newModel"))
        elif kind == "session.usage_record":
            self._usage.append(fields_of(data.get("usage")))
        elif kind == "session.shutdown":
            metrics = fields_of(data.get("modelMetrics"))
            self._is_interrupted = self._is_interrupted or data.get("shutdownType") == "error"
            self._usage = [fields_of(fields_of(model).get("usage")) for model in metrics.values()] or self._usage

    def run(self) -> Run:
        for usage in self._usage:
            self.builder.spend(usage.get("inputTokens"), usage.get("outputTokens"))
        return self.builder.run(is_interrupted=self._is_interrupted)


READERS: Final = (CopilotReader(),)
