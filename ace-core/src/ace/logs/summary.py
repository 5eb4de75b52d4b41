"""Counts what was found in logs, and says where a person has to decide before anything is paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ace.logs.building import text_of
from ace.logs.run import Problem, Run

__all__ = ["FormatCounts", "LogSummary"]

_FEWEST: Final = 3
"""Runs of a file from which on it is asked whether they were meant to be runs."""
_CHARACTERS_PER_TOKEN: Final = 4
_MOST_TOKENS: Final = 32_000
"""A longer trace is cut before it is sent."""
_MUCH_TEXT: Final = 200
"""Characters in a field, summed over the runs, from which on it is listed if it was not read."""
_MOST_KEYS: Final = 8


@dataclass
class FormatCounts:
    """What was found in the logs of one format."""

    files: set[str] = field(default_factory=set)
    """The files."""
    runs: int = 0
    """The runs."""
    with_task: int = 0
    """Runs with a task."""
    with_answer: int = 0
    """Runs with an answer."""
    succeeded: int = 0
    """Runs that succeeded."""
    failed: int = 0
    """Runs that failed."""
    calls: int = 0
    """Calls of tools."""
    failed_calls: int = 0
    """Results of tools that failed."""
    turns: int = 0
    """Messages of persons."""
    tokens: int = 0
    """The size of the traces in tokens, estimated from the characters; longer ones are cut before they are sent."""
    first: datetime | None = None
    """When the first run began."""
    last: datetime | None = None
    """When the last run began."""
    unread: Counter[str] = field(default_factory=Counter)
    """The characters in fields that were not understood, by field."""

    def add(self, run: Run) -> None:
        """Count a run."""
        self.files.add(file_of(run))
        self.runs += 1
        self.with_task += bool(run.task)
        self.with_answer += bool(run.answer)
        self.succeeded += run.success is True
        self.failed += run.success is False
        size = len(run.task) + len(run.answer) + len(run.context) + len(run.reason)
        for step in run.steps:
            size += len(step.content)
            self.calls += step.kind == "call"
            self.failed_calls += step.kind == "result" and step.is_error
            self.turns += step.kind == "message" and step.speaker == "person"
        for name, value in run.rest.items():
            characters = len(text_of(value))
            size += characters
            self.unread[name] += characters
        self.tokens += min(_MOST_TOKENS, size // _CHARACTERS_PER_TOKEN)
        began = run.started or run.ended
        if began is not None:
            self.first = began if self.first is None else min(self.first, began)
            self.last = began if self.last is None else max(self.last, began)

    def unread_keys(self) -> list[str]:
        """Return the fields that hold much text and were not understood, the largest first."""
        return [name for name, size in self.unread.most_common(_MOST_KEYS) if size >= _MUCH_TEXT]

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "files": len(self.files),
            "runs": self.runs,
            "with_task": self.with_task,
            "with_answer": self.with_answer,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "calls": self.calls,
            "failed_calls": self.failed_calls,
            "person_turns": self.turns,
            "trace_tokens": self.tokens,
            "first": None if self.first is None else self.first.isoformat(),
            "last": None if self.last is None else self.last.isoformat(),
            "unread_fields": self.unread_keys(),
        }


@dataclass
class _FileCounts:
    """What is needed to tell whether the runs of a file were meant to be runs."""

    runs: int = 0
    empty: int = 0
    """Runs with several steps and neither task nor answer."""
    id: str = ""
    has_other_ids: bool = False

    def add(self, run: Run) -> None:
        self.has_other_ids = self.has_other_ids or not run.id or (self.runs > 0 and run.id != self.id)
        self.id = run.id
        self.runs += 1
        self.empty += not run.task and not run.answer and len(run.steps) != 1


@dataclass
class LogSummary:
    """What was found in some logs, by format.

    Example:
        >>> summary = LogSummary()
        >>> summary.add(Run(task="2+2?", answer="5", success=False, place="a.jsonl#1", format="unknown"))
        >>> summary.formats["unknown"].failed, list(summary.questions())
        (1, [])
    """

    formats: dict[str, FormatCounts] = field(default_factory=dict)
    """The counts by the name of the reader."""
    problems: list[Problem] = field(default_factory=list)
    """What cannot be read."""
    side_files: int = 0
    """Files that were skipped because they belong to a log beside or above them."""
    _files: dict[str, _FileCounts] = field(default_factory=dict)

    def add(self, run: Run) -> None:
        """Count a run."""
        self.formats.setdefault(run.format, FormatCounts()).add(run)
        self._files.setdefault(file_of(run), _FileCounts()).add(run)

    def add_problem(self, problem: Problem) -> None:
        """Note what cannot be read."""
        self.problems.append(problem)

    @property
    def has_losses(self) -> bool:
        """Whether something in the logs could not be read."""
        return any(problem.kind == "loss" for problem in self.problems)

    @property
    def runs(self) -> int:
        """The runs of all formats."""
        return sum(counts.runs for counts in self.formats.values())

    def questions(self) -> Iterator[str]:
        """Yield what a person has to confirm before these runs are paid for, a sentence for each file in doubt."""
        yield from (str(problem) for problem in self.problems if problem.kind == "doubt")
        for name, counts in self._files.items():
            if counts.empty * 2 > counts.runs:
                yield f"{name}: {counts.empty} of {counts.runs} runs have neither a task nor an answer"
            elif counts.runs >= _FEWEST and counts.id and not counts.has_other_ids:
                yield f"{name}: all {counts.runs} runs have the id {counts.id!r}, so they may be one run"

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "formats": {name: counts.as_json() for name, counts in sorted(self.formats.items())},
            "problems": [
                {"file": problem.file, "line": problem.line, "reason": problem.reason, "kind": problem.kind}
                for problem in self.problems
            ],
            "side_files": self.side_files,
            "questions": list(self.questions()),
        }


def file_of(run: Run) -> str:
    """Return the file in which a run was found."""
    name, hash_sign, number = run.place.rpartition("#")
    return name if hash_sign and number.isdigit() else run.place
