"""Reads the sessions of Gemini CLI and Qwen Code, and what Gemini CLI prints as a stream of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, sum_of, text_of, time_of
from ace.logs.head import LogHead, Record
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run, Speaker
from ace.logs.sessions import active_path, read_sessions
from ace.logs.source import Source, file_source
from ace.logs.speakers import spoken_by_user

__all__ = ["READERS", "GeminiReader", "GeminiStreamReader", "QwenReader"]

_COMMAND: Final = re.compile(r"[/?][\w:-]*(?:\s|$)")
"""How a command of the program begins, other than a path."""
_EXIT_CODE: Final = re.compile(r".*^Exit Code: (?!0\s*$)-?\d+\s*$(?!.*^Exit Code: )", re.MULTILINE | re.DOTALL)
"""What the shell tool adds below the output of a command that failed; its status only says that it was started."""
_NO_RESULT: Final = ("validating", "scheduled", "executing", "awaiting_approval")


class GeminiReader:
    """Reads sessions of Gemini CLI: one JSON object, or a log of messages and changes."""

    name = "gemini"
    title = "Gemini CLI sessions"
    places = ("$GEMINI_CLI_HOME/.gemini/tmp/*/chats/session-*.json*", "~/.gemini/tmp/*/chats/session-*.json*")
    side_files = ("chats/*/*.jsonl", "*.unreadable-*", "*.tmp-*")
    note = "The steps of sub-agents are put in by their times."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the fields of the session, or by the types of the messages."""
        if {"sessionId", "projectHash"} <= head.keys:
            return 0.95
        changes = any("$set" in record or "$rewindTo" in record for record in head.objects)
        return 0.8 if changes and any(record.get("type") == "gemini" for record in head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session."""
        newer = source.path.with_suffix(".jsonl")
        if source.path.suffix == ".json" and newer.is_file():
            yield source.problem(f"the session was continued in {newer.name}, which has all of it", kind="notice")
            return
        yield from read_sessions(source, lambda: _GeminiSession(source.path.parent))


class _GeminiSession:
    """The messages of one session, after all changes.

    Args:
        folder: The folder of the log, in which those of sub-agents are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fields: dict[str, Any] = {}
        self._messages: dict[str, tuple[Mapping[str, Any], str]] = {}
        # A resumed session has its messages again without tokens, calls and times, so the first ones count.
        self._recorded: dict[str, tuple[Mapping[str, Any], str]] = {}

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return "projectHash" in record and self._fields.get("sessionId") not in (None, record.get("sessionId"))

    def add(self, record: Mapping[str, Any], place: str) -> None:
        changed = record.get("$set")
        if isinstance(changed, dict) or "projectHash" in record:
            self._change(changed if isinstance(changed, dict) else record, place)
        elif "$rewindTo" in record:
            self._rewind(record["$rewindTo"])
        elif "id" in record:
            identity = text_of(record["id"])
            self._messages[identity] = self._recorded[identity] = (record, place)

    def _change(self, fields: Mapping[str, Any], place: str) -> None:
        self._fields = {**fields, **self._fields}
        messages = fields.get("messages")
        if isinstance(messages, list):
            self._messages = {}
            for number, message in enumerate(messages, 1):
                if isinstance(message, dict):
                    identity = text_of(message.get("id") or f"{place}.{number}")
                    self._messages[identity] = self._recorded.setdefault(identity, (message, f"{place}.{number}"))

    def _rewind(self, identity: object) -> None:
        names = list(self._messages)
        start = names.index(text_of(identity)) if text_of(identity) in names else 0
        for name in names[start:]:
            del self._messages[name]

    @property
    def messages(self) -> list[tuple[datetime, Speaker, Mapping[str, Any], str]]:
        """The messages with their times, with the speaker of those in the role `user`, and with their places."""
        speaker: Speaker = "harness" if self._fields.get("kind") == "subagent" else "person"
        found, last = [], datetime.min.replace(tzinfo=UTC)
        for message, place in self._messages.values():
            last = max(last, time_of(message.get("timestamp")) or last)  # so that sorting keeps their order
            found.append((last, speaker, message, place))
        return found

    def run(self) -> Run:
        builder = RunBuilder()
        is_sub_agent = self._fields.get("kind") == "subagent"
        parent = self._folder.name if is_sub_agent else ""
        builder.note(id=self._fields.get("sessionId"), parent=parent, cwd=self._project())
        builder.at(self._fields.get("startTime"))
        messages = self.messages
        if not is_sub_agent:
            messages = sorted([*messages, *self._of_sub_agents()], key=lambda message: message[0])
        for _, speaker, message, place in messages:
            _add_gemini(builder, message, speaker, place)
        for message, _ in self._removed():
            _spend(builder, message)
        return builder.run(is_interrupted=builder.is_interrupted)

    def _project(self) -> str:
        """Return the folder of the project, which no message names; empty in a copy of the log elsewhere."""
        mark = self._folder.parent / ".project_root"
        return mark.read_text(encoding="utf-8", errors="replace").strip() if mark.is_file() else ""

    def _removed(self) -> Iterator[tuple[Mapping[str, Any], str]]:
        """Yield the messages that were rewound, and those that are missing since the session was resumed."""
        yield from (found for identity, found in self._recorded.items() if identity not in self._messages)

    def _of_sub_agents(self) -> Iterator[tuple[datetime, Speaker, Mapping[str, Any], str]]:
        name = text_of(self._fields.get("sessionId"))
        if name in ("", "..") or Path(name).name != name:  # a log must not lead to other folders
            return
        for path in sorted((self._folder / name).glob("*.jsonl")):
            session = _GeminiSession(path.parent)
            for record in file_source(path).records():
                session.add(fields_of(record.value), f"{path.name}:{record.line}")
            if session._fields.get("kind") == "subagent":
                yield from session.messages


def _add_gemini(builder: RunBuilder, message: Mapping[str, Any], speaker: Speaker, place: str) -> None:
    builder.at(message.get("timestamp"))
    kind, content = message.get("type"), message.get("content")
    parts = content if isinstance(content, list) else [{"text": text_of(content)}]
    if kind == "user":
        _add_gemini_user(builder, parts, speaker, place)
    elif kind in ("gemini", "qwen"):  # the first versions of Qwen Code wrote the same files
        _spend(builder, message)
        builder.note(model=message.get("model"))
        for thought in objects_of(message.get("thoughts")):
            texts = (text_of(thought.get("subject")), text_of(thought.get("description")))
            builder.thought(": ".join(filter(None, texts)), place)
        calls = objects_of(message.get("toolCalls"))
        if calls:  # newer versions repeat them among the parts
            parts = [part for part in parts if "functionCall" not in fields_of(part)]
        add_message(builder, {"parts": parts}, place, role="assistant")
        for number, call in enumerate(calls, 1):
            _add_gemini_call(builder, call, f"{place}.{number}")
    else:
        builder.message("harness", "\n".join(text_of(fields_of(part).get("text")) for part in parts), place)


def _spend(builder: RunBuilder, message: Mapping[str, Any]) -> None:
    tokens = fields_of(message.get("tokens"))
    builder.spend(tokens.get("input"), sum_of(tokens.get("output"), tokens.get("thoughts")))


def _add_gemini_user(builder: RunBuilder, parts: Sequence[Any], speaker: Speaker, place: str) -> None:
    """Add what a person said. The responses of functions are only new if no call has its result so far."""
    for part in parts:
        response = fields_of(part).get("functionResponse")
        if response and not builder.is_answered(text_of(fields_of(response).get("id"))):
            _add_responses(builder, [part], None, place)
    text = "\n".join(part if isinstance(part, str) else text_of(fields_of(part).get("text")) for part in parts)
    said_by, said = spoken_by_user(text)
    if speaker == "harness" and said_by == "person":
        builder.note(task=said if builder.steps == [] else "")
    is_command = _COMMAND.match(said) is not None
    builder.message("harness" if is_command or speaker == "harness" else said_by, said, place)


def _add_gemini_call(builder: RunBuilder, call: Mapping[str, Any], place: str) -> None:
    identity, status = text_of(call.get("id")), call.get("status")
    builder.at(call.get("timestamp"))
    builder.call(text_of(call.get("name")), call.get("args"), identity, place)
    results = objects_of(call.get("result"))
    if status in _NO_RESULT or (not results and status is None):
        return
    parts = results or [{"functionResponse": {"id": identity, "response": {"output": call.get("resultDisplay")}}}]
    _add_responses(builder, parts, status, place)


def _add_responses(builder: RunBuilder, parts: Sequence[Any], status: object, place: str) -> None:
    """Add the responses of functions with the status of their call, which precedes what the texts say."""
    stated = {"status": status} if isinstance(status, str) else {}
    before = len(builder.steps)
    add_message(builder, {"parts": [{**fields_of(part), **stated} for part in parts]}, place, role="tool")
    for step in builder.steps[before:]:
        if status == "cancelled":
            builder.cancel(step.call_id)
        if step.kind == "result" and step.name == "run_shell_command" and _EXIT_CODE.match(step.content):
            builder.fail_last_result(step.call_id)


class GeminiStreamReader:
    """Reads the output of `gemini --output-format stream-json`."""

    name = "gemini-stream"
    title = "Output of `gemini --output-format stream-json`"
    places: tuple[str, ...] = ()
    side_files: tuple[str, ...] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the first line, or by the fields of calls."""
        objects = head.objects
        begins = any(record.get("type") == "init" and {"session_id", "model"} <= record.keys() for record in objects)
        calls = any(
            record.get("type") == "tool_use" and {"tool_id", "tool_name"} <= record.keys() for record in objects
        )
        return 0.9 if head.shape in ("lines", "values", "live") and (begins or calls) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the run."""
        yield from read_sessions(source, _StreamSession)


class _StreamSession:
    """One run of Gemini CLI that was printed."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self._id = ""
        self._chunks: list[str] = []
        self._place = ""
        self._is_interrupted = False

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return record.get("type") == "init" and self._id not in ("", record.get("session_id"))

    def add(self, record: Mapping[str, Any], place: str) -> None:
        self.builder.at(record.get("timestamp"))
        kind = record.get("type")
        if kind == "message" and record.get("role") == "assistant" and record.get("delta"):
            self._place = self._place or place
            self._chunks.append(text_of(record.get("content")))
            return
        self._add_chunks()
        if kind == "init":
            self._id = text_of(record.get("session_id"))
            self.builder.note(id=self._id, model=record.get("model"))
        elif kind == "message":
            add_message(self.builder, record, place)
        elif kind == "tool_use":
            identity = text_of(record.get("tool_id"))
            self.builder.call(text_of(record.get("tool_name")), record.get("parameters"), identity, place)
        elif kind == "tool_result":
            self._add_result(record, place)
        elif kind == "error":
            self.builder.message("harness", text_of(record.get("message")), place)
        elif kind == "result":
            self._end(record, place)

    def _add_chunks(self) -> None:
        self.builder.message("agent", "".join(self._chunks), self._place)
        self._chunks, self._place = [], ""

    def _add_result(self, record: Mapping[str, Any], place: str) -> None:
        failed = record.get("status") == "error"
        output = record.get("output") or fields_of(record.get("error")).get("message")
        self.builder.result(output, text_of(record.get("tool_id")), place, is_error=failed)

    def _end(self, record: Mapping[str, Any], place: str) -> None:
        stats = fields_of(record.get("stats"))
        self.builder.spend(stats.get("input_tokens"), stats.get("output_tokens"))
        self._is_interrupted = record.get("status") == "error"
        self.builder.message("harness", text_of(fields_of(record.get("error")).get("message")), place)

    def run(self) -> Run:
        self._add_chunks()
        return self.builder.run(is_interrupted=self._is_interrupted)


class QwenReader:
    """Reads sessions of Qwen Code, whose envelope is that of Claude Code and whose messages are Google's."""

    name = "qwen"
    title = "Qwen Code sessions"
    places = ("~/.qwen/projects/*/chats/*.jsonl",)
    side_files: tuple[str, ...] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the envelope with Google's parts in it."""
        fitting = (
            {"uuid", "sessionId"} <= record.keys() and "parts" in fields_of(record.get("message"))
            for record in head.objects
        )
        return 0.95 if any(fitting) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session."""
        yield from read_sessions(source, _QwenSession)


class _QwenSession:
    """One session, of which the branch counts that was continued last: rewinding starts another one."""

    def __init__(self) -> None:
        self._id = ""
        self._records: list[Record] = []

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return self._id not in ("", record.get("sessionId", self._id))

    def add(self, record: Mapping[str, Any], place: str) -> None:
        self._id = self._id or text_of(record.get("sessionId"))
        self._records.append(Record(record, int(place)))

    def run(self) -> Run:
        builder = RunBuilder()
        builder.note(id=self._id)
        main = [record for record in self._records if not record.value.get("isSidechain")]
        lines = {record.line for record in active_path(main, "uuid", "parentUuid")}
        for record in self._records:
            if record.line in lines or record.value.get("isSidechain"):
                _add_qwen(builder, record.value, str(record.line))
        return builder.run(is_interrupted=builder.is_interrupted)


def _add_qwen(builder: RunBuilder, record: Mapping[str, Any], place: str) -> None:
    builder.at(record.get("timestamp"))
    builder.note(cwd=record.get("cwd"), model=record.get("model"))
    kind, message = record.get("type"), fields_of(record.get("message"))
    if kind == "user" and _is_by_harness(record):
        texts = [text_of(part.get("text")) for part in objects_of(message.get("parts"))]
        builder.message("harness", "\n".join(texts), place)
    elif kind == "user":
        add_message(builder, message, place, role="user")
    elif kind == "assistant":
        usage = fields_of(record.get("usageMetadata"))
        written = sum_of(usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount"))
        builder.spend(usage.get("promptTokenCount"), written)
        add_message(builder, message, place, role="assistant")
    elif kind == "tool_result":
        status = fields_of(record.get("toolCallResult")).get("status")
        _add_responses(builder, objects_of(message.get("parts")), status, place)


def _is_by_harness(record: Mapping[str, Any]) -> bool:
    provenance = record.get("provenance", "real_user")
    return bool(record.get("isSidechain")) or provenance != "real_user" or record.get("subtype") in _QWEN_HARNESS


_QWEN_HARNESS: Final = ("notification", "cron")

READERS: Final = (GeminiReader(), GeminiStreamReader(), QwenReader())
