"""Reads the sessions of Codex CLI, and what `codex exec --json` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, text_of, time_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run, Step
from ace.logs.sessions import read_sessions
from ace.logs.source import Source

__all__ = ["READERS", "CodexExecReader", "CodexReader"]

_LINES: Final = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_ITEMS: Final = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
_EXEC_LINES: Final = (
    *("thread.started", "turn.started", "turn.completed", "turn.failed"),
    *("item.started", "item.updated", "item.completed"),
)
_FAILED: Final = ("failed", "declined")
_REJECTED: Final = ("exec command rejected by user", "patch rejected by user", "rejected by user")
"""The whole output of a call that a person rejected. The output of a command is never alone."""


class CodexReader:
    """Reads the rollout files of Codex CLI, also those from before September 2025."""

    name = "codex"
    title = "Codex CLI sessions"
    places = (
        "$CODEX_HOME/sessions/**/*.jsonl*",
        "~/.codex/sessions/**/*.jsonl*",
        "~/.codex/archived_sessions/*.jsonl*",
    )
    side_files = ("history.jsonl", "session_index.jsonl")
    note = "The session of a sub-agent is a run of its own, which names its parent."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the envelope of the lines, or by the bare items of old versions."""
        objects = head.objects
        lines = sum(record.get("type") in _LINES and isinstance(record.get("payload"), dict) for record in objects)
        if lines * 2 > len(objects):
            return 0.95
        is_old = head.shape == "lines" and {"id", "timestamp", "instructions"} <= head.keys and "type" not in head.keys
        items = any(record.get("type") in _ITEMS or record.get("record_type") == "state" for record in objects)
        return 0.9 if is_old and items else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the session; of a file and a compressed copy beside it, the file."""
        if source.path.suffix == ".zst" and source.path.with_suffix("").is_file():
            yield source.problem(f"the same session is in {source.path.stem}", kind="notice")
            return
        yield from read_sessions(source, _Session)


class _Session:
    """One session. The conversation is that of the response items; events say who wrote a message, and what failed."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self._id = ""
        self._began: datetime | None = None
        self._is_sub_agent = False
        self._typed: set[str] = set()
        self._failed: set[str] = set()
        self._answer = ""
        self._is_interrupted = False
        self._tokens: Mapping[str, Any] = {}

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        """Whether this is the first line of a later session; resumed and forked ones repeat that of an earlier one."""
        if record.get("type") != "session_meta" or not self._id:
            return False
        meta = fields_of(record.get("payload"))
        began = time_of(meta.get("timestamp") or record.get("timestamp"))
        is_later = began is None or self._began is None or began > self._began
        return meta.get("id") != self._id and is_later

    def add(self, record: Mapping[str, Any], place: str) -> None:
        kind, payload = record.get("type"), record.get("payload")
        self.builder.at(record.get("timestamp"))
        if not isinstance(payload, dict):
            # Before September 2025, each line was what is the payload now.
            kind, payload = "response_item" if kind else "session_meta", dict(record)
        if kind == "session_meta":
            self._begin(payload, record)
        elif kind == "turn_context":
            self.builder.note(model=payload.get("model"), cwd=payload.get("cwd"))
        elif kind == "response_item":
            self._add_item(payload, place)
        elif kind == "event_msg":
            self._add_event(payload)

    def _begin(self, meta: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        if self._id or "id" not in meta:
            return
        self._id = text_of(meta["id"])
        self._began = time_of(meta.get("timestamp") or record.get("timestamp"))
        origin = meta.get("source")
        spawned = fields_of(fields_of(fields_of(origin).get("subagent")).get("thread_spawn"))
        self._is_sub_agent = "subagent" in fields_of(origin) or origin == "subagent" or bool(meta.get("agent_role"))
        self.builder.note(
            id=self._id,
            cwd=meta.get("cwd"),
            commit=fields_of(meta.get("git")).get("commit_hash"),
            parent=spawned.get("parent_thread_id"),
            rest={"forked_from": meta["forked_from_id"]} if meta.get("forked_from_id") else {},
        )

    def _add_item(self, item: Mapping[str, Any], place: str) -> None:
        if item.get("type") == "message" and item.get("role") not in ("user", "assistant"):
            return
        add_message(self.builder, item, place)

    def _add_event(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        item = fields_of(event.get("item")) if kind == "item_completed" else event
        if kind == "user_message" or item.get("type") == "UserMessage":
            texts = [text_of(part.get("text")) for part in objects_of(item.get("content"))]
            typed = _squeezed(text_of(item.get("message")) or "\n".join(texts))
            self._typed |= {typed} if typed else set()
            self._answer, self._is_interrupted = "", False
        elif kind == "token_count":
            self._tokens = fields_of(fields_of(event.get("info")).get("total_token_usage")) or self._tokens
        elif kind == "task_complete":
            self._answer, self._is_interrupted = text_of(event.get("last_agent_message")), False
        elif kind == "turn_aborted":
            self._is_interrupted = True
        elif kind == "thread_rolled_back":
            self._roll_back(event.get("num_turns"))
        elif _has_failed(item):
            self._failed.add(text_of(item.get("call_id") or item.get("id")))

    def _roll_back(self, turns: object) -> None:
        self._confirm_persons()
        said = [number for number, step in enumerate(self.builder.steps) if _is_by_person(step)]
        if isinstance(turns, int) and turns > 0 and said:
            self.builder.rewind(said[-min(turns, len(said))])
            self._answer, self._is_interrupted = "", False

    def _confirm_persons(self) -> None:
        """Leave to a person only what was typed, if the log says what was: instructions have the same role."""
        if not self._typed:
            return
        for number, step in enumerate(self.builder.steps):
            if _is_by_person(step) and not _squeezed(step.content).endswith(tuple(self._typed)):
                self.builder.steps[number] = replace(step, speaker="harness")

    def run(self) -> Run:
        self._confirm_persons()
        for number, step in enumerate(self.builder.steps):
            if step.kind == "result" and step.content.strip() in _REJECTED:
                self.builder.steps[number] = replace(step, is_error=True, is_rejected=True)
            elif step.kind == "result" and step.call_id and step.call_id in self._failed:
                self.builder.steps[number] = replace(step, is_error=True)
        if self._is_sub_agent:
            self._give_to_harness()
        if self._tokens:
            self.builder.spend(self._tokens.get("input_tokens"), self._tokens.get("output_tokens"))
        return self.builder.run(answer=self._answer, is_interrupted=self._is_interrupted)

    def _give_to_harness(self) -> None:
        """Say that what a sub-agent is asked to do comes from another agent."""
        for number, step in enumerate(self.builder.steps):
            if _is_by_person(step):
                self.builder.note(task=step.content)
                self.builder.steps[number] = replace(step, speaker="harness")


def _is_by_person(step: Step) -> bool:
    return step.kind == "message" and step.speaker == "person"


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _has_failed(event: Mapping[str, Any]) -> bool:
    """Whether an event says that a call failed, such as the end of a command or of a patch."""
    code, result = event.get("exit_code"), event.get("result")
    is_bad_code = isinstance(code, int) and code != 0
    is_bad_result = isinstance(result, dict) and ("Err" in result or fields_of(result.get("Ok")).get("isError") is True)
    return is_bad_code or is_bad_result or event.get("success") is False or event.get("status") in _FAILED


class CodexExecReader:
    """Reads the output of `codex exec --json`."""

    name = "codex-exec"
    title = "Output of `codex exec --json`"
    places: tuple[str, ...] = ()
    side_files: tuple[str, ...] = ()
    note = "The task is not in this output."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the types of the lines."""
        types = [record.get("type") for record in head.objects]
        return 0.95 if sum(kind in _EXEC_LINES for kind in types) * 2 > len(types) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the run."""
        yield from read_sessions(source, _ExecSession)


class _ExecSession:
    """One run of `codex exec`. Items count when they are completed; of the others only the call is known."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self._id = ""
        self._started: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._usage: Mapping[str, Any] = {}
        self._is_interrupted = False

    def begins_another(self, record: Mapping[str, Any]) -> bool:
        return record.get("type") == "thread.started" and self._id not in ("", record.get("thread_id"))

    def add(self, record: Mapping[str, Any], place: str) -> None:
        kind, item = record.get("type"), fields_of(record.get("item"))
        if kind == "thread.started":
            self._id = text_of(record.get("thread_id"))
        elif kind in ("item.started", "item.updated"):
            self._started[text_of(item.get("id"))] = (item, place)
        elif kind == "item.completed":
            self._started.pop(text_of(item.get("id")), None)
            self._add_item(item, place)
        elif kind == "turn.completed":
            self._usage = fields_of(record.get("usage"))
        elif kind in ("turn.failed", "error"):
            error = record.get("error") or record.get("message")
            self.builder.message("harness", text_of(fields_of(error).get("message") or error), place)
            self._is_interrupted = True

    def _add_item(self, item: Mapping[str, Any], place: str) -> None:
        kind, identity = text_of(item.get("type")), text_of(item.get("id"))
        if kind == "agent_message":
            self.builder.message("agent", text_of(item.get("text")), place)
        elif kind == "reasoning":
            self.builder.thought(text_of(item.get("text")), place)
        elif kind == "error":
            self.builder.message("harness", text_of(item.get("message")), place)
        else:
            self._add_call(kind, item, place)
            if "status" in item:
                self.builder.result(_output(item), identity, place, is_error=_has_failed(item))

    def _add_call(self, kind: str, item: Mapping[str, Any], place: str) -> None:
        outcome = ("id", "type", "status", "aggregated_output", "exit_code", "result", "error")
        arguments = {name: value for name, value in item.items() if name not in outcome}
        if kind == "mcp_tool_call":
            kind = f"{text_of(item.get('server'))}.{text_of(item.get('tool'))}"
            arguments = item.get("arguments") or {}
        self.builder.call(kind, arguments, text_of(item.get("id")), place)

    def run(self) -> Run:
        for item, place in self._started.values():
            if item.get("status") == "in_progress":
                self._add_call(text_of(item.get("type")), item, place)
        self.builder.spend(self._usage.get("input_tokens"), self._usage.get("output_tokens"))
        return self.builder.run(id=self._id, is_interrupted=self._is_interrupted)


def _output(item: Mapping[str, Any]) -> object:
    error = item.get("error")
    if error:
        return fields_of(error).get("message") or error
    found = item.get("aggregated_output", item.get("result"))
    texts = [text_of(block.get("text")) for block in objects_of(fields_of(found).get("content"))]
    return "\n".join(texts) if any(texts) else found


READERS: Final = (CodexReader(), CodexExecReader())
