"""One attempt at a task: the commands that were run, their errors, and the outcome. Fields are named as in the log."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar, get_args

from ace._internal.arguments import shown
from ace._internal.json_fields import Record, text_in

__all__ = [
    "ExecutionError",
    "ExecutionResult",
    "ExecutionTrace",
    "Outcome",
    "ResultStatus",
    "Severity",
    "check_task_id",
]

Outcome = Literal["success", "failure", "partial"]
"""How an attempt at a task ended."""

ResultStatus = Literal["pass", "fail"]
"""How one command ended."""

Severity = Literal["error", "warning", "info"]
"""How serious an error is."""

_Word = TypeVar("_Word", bound=str)
_TASK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_task_id(task_id: object) -> str:
    """Return the id of a task if it is valid.

    Args:
        task_id: The id: up to 64 ASCII letters, digits, `_`, `.` and `-`, the first of them a letter or a digit.

    Raises:
        ValueError: It is not valid.

    Example:
        >>> check_task_id("bd-42.1")
        'bd-42.1'
        >>> check_task_id("--status")
        Traceback (most recent call last):
        ...
        ValueError: '--status' is not a task id (up to 64 letters, digits, '_', '.' and '-', first a letter or digit)
    """
    if isinstance(task_id, str) and _TASK_ID.fullmatch(task_id):
        return task_id
    raise ValueError(
        f"{shown(task_id)} is not a task id (up to 64 letters, digits, '_', '.' and '-', first a letter or digit)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionError:
    """An error that a command reported."""

    message: str
    """Its text."""
    tool: str = ""
    """The program that reported it, such as `pytest` or `tsc`; empty if it is not known."""
    severity: Severity = "error"
    """How serious it is."""
    file: str = ""
    """The file that it is about; empty if it is not known."""
    line: int | None = None
    """The line in that file, from 1."""
    column: int | None = None
    """The column in that line."""
    more: Mapping[str, object] = field(default_factory=dict)
    """The fields of the record that have no other place here."""

    def __str__(self) -> str:
        """Return the error in one text, such as `src/a.py:3:7: error: undefined name 'x' (ruff)`."""
        numbers = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        place = f"{self.file}{numbers}: " if self.file else ""
        return f"{place}{self.severity}: {self.message}" + (f" ({self.tool})" if self.tool else "")

    @classmethod
    def from_record(cls, record: object) -> ExecutionError:
        """Return the error that a JSON value describes: an object, or only its message.

        Raises:
            ValueError: A field has a wrong value.
        """
        if isinstance(record, str):
            return cls(message=record)
        fields = _object(record, "an error")
        return cls(
            message=text_in(fields, "message"),
            tool=text_in(fields, "tool"),
            severity=_word(fields.get("severity") or "error", get_args(Severity), "the severity of an error"),
            file=text_in(fields, "file"),
            line=_number(fields.get("line"), "line"),
            column=_number(fields.get("column"), "column"),
            more=_others(fields, "message", "tool", "severity", "file", "line", "column"),
        )

    def as_record(self) -> dict[str, object]:
        """Return the JSON object for the log."""
        record: dict[str, object] = {"tool": self.tool, "severity": self.severity, "message": self.message}
        if self.file:
            record |= {"file": self.file, "line": self.line}
        if self.column is not None:
            record["column"] = self.column
        return {**record, **self.more}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """A command that was run during an attempt, with what it reported."""

    runner: str
    """What ran, such as `pytest`."""
    command: str
    """The command line."""
    status: ResultStatus
    """Whether it passed."""
    errors: Sequence[ExecutionError] = ()
    """The errors that it reported, in order."""
    more: Mapping[str, object] = field(default_factory=dict)
    """The fields of the record that have no other place here, such as `output`."""

    def __post_init__(self) -> None:
        _word(self.status, get_args(ResultStatus), "the status of an execution result")

    @classmethod
    def from_record(cls, record: object) -> ExecutionResult:
        """Return the result that a JSON object describes.

        Raises:
            ValueError: It is not an object, or a field has a wrong value.

        Example:
            >>> ExecutionResult.from_record({"runner": "npm", "command": "npm test", "status": "pass"}).status
            'pass'
        """
        fields = _object(record, "an execution result")
        return cls(
            runner=text_in(fields, "runner"),
            command=text_in(fields, "command"),
            status=_word(fields.get("status"), get_args(ResultStatus), "the status of an execution result"),
            errors=tuple(ExecutionError.from_record(error) for error in _list(fields, "errors")),
            more=_others(fields, "runner", "command", "status", "errors"),
        )

    def as_record(self) -> dict[str, object]:
        """Return the JSON object for the log."""
        errors = [error.as_record() for error in self.errors]
        return {"runner": self.runner, "command": self.command, "status": self.status, "errors": errors, **self.more}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTrace:
    """One attempt at a task.

    Raises:
        ValueError: The id of the task or the outcome is not valid.

    Example:
        >>> trace = ExecutionTrace(task_id="bd-42", outcome="success", trace_id="t1", task_description="Fix imports")
        >>> trace.place, trace.as_record()["bead_id"]
        ('bd-42/t1', 'bd-42')
    """

    task_id: str
    """The id of the task, see `check_task_id`; `bead_id` in the log."""
    outcome: Outcome
    """How the attempt ended."""
    task_description: str = ""
    """What was to be done."""
    execution_results: Sequence[ExecutionResult] = ()
    """The commands that were run, in order."""
    bullets_consulted: Sequence[str] = ()
    """The ids of the skills that were consulted."""
    discovered_issues: Sequence[str] = ()
    """The ids of the tasks that were found on the way."""
    trace_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """The name of the trace, unique for its task."""
    timestamp: datetime | None = field(default_factory=lambda: datetime.now(UTC))
    """When the attempt was recorded; None if the record does not say."""
    more: Mapping[str, object] = field(default_factory=dict)
    """The fields of the record that have no other place here."""

    def __post_init__(self) -> None:
        check_task_id(self.task_id)
        _word(self.outcome, get_args(Outcome), "the outcome")
        if not self.trace_id:
            raise ValueError("the trace_id must not be empty")

    @property
    def place(self) -> str:
        """The name of the trace in runs and reports, which does not depend on its line: `TASK/TRACE_ID`."""
        return f"{self.task_id}/{self.trace_id}"

    @classmethod
    def from_record(cls, record: object) -> ExecutionTrace:
        """Return the trace that a line of the log describes.

        A missing `trace_id` becomes a hash of the record.

        Args:
            record: The parsed JSON.

        Raises:
            ValueError: It is not a trace; the text says which field is wrong.

        Example:
            >>> ExecutionTrace.from_record({"task_id": "bd-42", "outcome": "done"})
            Traceback (most recent call last):
            ...
            ValueError: the outcome must be success, failure or partial, got 'done'
        """
        fields = _object(record, "a trace")
        return cls(
            task_id=check_task_id(fields.get("bead_id") or fields.get("task_id")),
            outcome=_word(fields.get("outcome"), get_args(Outcome), "the outcome"),
            task_description=text_in(fields, "task_description"),
            execution_results=tuple(
                ExecutionResult.from_record(result) for result in _list(fields, "execution_results")
            ),
            bullets_consulted=_texts(fields, "bullets_consulted"),
            discovered_issues=_texts(fields, "discovered_issues"),
            trace_id=str(fields.get("trace_id") or _hash_of(fields)),
            timestamp=_time(fields.get("timestamp")),
            more=_others(
                fields,
                *("bead_id", "task_id", "outcome", "task_description", "execution_results", "bullets_consulted"),
                *("discovered_issues", "trace_id", "timestamp"),
            ),
        )

    def as_record(self) -> dict[str, object]:
        """Return the JSON object for the log."""
        return {
            "trace_id": self.trace_id,
            "timestamp": None if self.timestamp is None else self.timestamp.astimezone(UTC).isoformat(),
            "bead_id": self.task_id,
            "task_description": self.task_description,
            "bullets_consulted": list(self.bullets_consulted),
            "execution_results": [result.as_record() for result in self.execution_results],
            "discovered_issues": list(self.discovered_issues),
            "outcome": self.outcome,
            **self.more,
        }


def _object(value: object, what: str) -> Record:
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"{what} must be a JSON object, got {shown(value)}")


def _word(value: object, words: Sequence[_Word], what: str) -> _Word:
    for word in words:
        if word == value:
            return word
    raise ValueError(f"{what} must be {', '.join(words[:-1])} or {words[-1]}, got {shown(value)}")


def _list(fields: Record, name: str) -> Sequence[object]:
    value = fields.get(name)
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    raise ValueError(f"{name} must be a list, got {shown(value)}")


def _texts(fields: Record, name: str) -> tuple[str, ...]:
    values = _list(fields, name)
    found = tuple(value for value in values if isinstance(value, str))
    if len(found) != len(values):
        raise ValueError(f"{name} must be a list of texts, got {shown(values)}")
    return found


def _number(value: object, name: str) -> int | None:
    """Return a line or a column; some tools write it as a text."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    raise ValueError(f"the {name} of an error must be a whole number, got {shown(value)}")


def _time(value: object) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None:
        raise ValueError(f"the timestamp must be a time in ISO 8601, got {shown(value)}")
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _others(fields: Record, *known: str) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in known}


def _hash_of(fields: Record) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]
