"""Counts what was found in logs, and says where a person has to decide before anything is paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

from ace.logs.building import text_of
from ace.logs.run import Problem, Run

__all__ = ["FormatCounts", "LogSummary", "problems_told"]

_FEWEST: Final = 3
"""Runs of a file from which on one id for all of them is hardly an accident."""
_MANY: Final = 20
"""Runs of a file from which on it is asked whether they are events: fewer cost little."""
_DATA_SET: Final = 200
"""Runs of a file from which on it is asked whether there is anything to learn from them."""
_CHARACTERS_PER_TOKEN: Final = 4
_MOST_TOKENS: Final = 32_000
"""A longer trace is cut before it is sent."""
_MUCH_TEXT: Final = 200
"""Characters in a field, summed over the runs, from which on it is listed if it was not read."""
_MOST_KEYS: Final = 8
_REASONS_SHOWN: Final = 12
_PLACES_SHOWN: Final = 3


_NUMBERS: Final = (
    "runs",
    "with_task",
    "with_answer",
    "succeeded",
    "failed",
    "calls",
    "failed_calls",
    "turns",
    "tokens",
)


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

    def add(self, run: Run) -> int:
        """Count a run, and return its size in tokens."""
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
        tokens = min(_MOST_TOKENS, size // _CHARACTERS_PER_TOKEN)
        self.tokens += tokens
        began = run.started or run.ended
        if began is not None:
            self.first = began if self.first is None else min(self.first, began)
            self.last = began if self.last is None else max(self.last, began)
        return tokens

    def include(self, other: FormatCounts) -> None:
        """Add the counts of another format.

        Args:
            other: Its counts.
        """
        self.files |= other.files
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unread += other.unread
        self.first = min(filter(None, (self.first, other.first)), default=None)
        self.last = max(filter(None, (self.last, other.last)), default=None)

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
    """Runs with neither a task nor an answer."""
    lone: int = 0
    """Runs with only a task or only an answer, as the lines of an event log would be read."""
    telling: int = 0
    """Runs with steps, an outcome, a right answer or a remark: something to learn from."""
    steps: int = 0
    """The steps of all runs."""
    id: str = ""
    has_other_ids: bool = False

    def add(self, run: Run) -> None:
        self.has_other_ids = self.has_other_ids or not run.id or (self.runs > 0 and run.id != self.id)
        self.id = run.id
        self.runs += 1
        self.steps += len(run.steps)
        self.empty += not run.task and not run.answer
        self.lone += bool(run.task) != bool(run.answer) and len(run.steps) <= 1 and not run.reason and not run.truth
        self.telling += bool(run.steps or run.reason or run.truth or run.success is not None or run.score is not None)

    def doubt(self) -> str:
        """Return why the runs may not be what the user means, with places for numbers; empty if nothing is doubtful."""
        is_one_text = self.runs == 1 and self.steps == 1
        if self.empty * 2 > self.runs and not is_one_text:
            return "{empty} of {runs} runs have neither a task nor an answer"
        if self.runs >= _FEWEST and self.id and not self.has_other_ids:
            return "all {runs} runs have the same id as the others of their file, so they may be one run"
        if self.runs >= _MANY and (self.empty + self.lone) * 2 > self.runs:
            return "most of the {runs} runs have only a task or only an answer, as the lines of an event log would"
        if self.runs >= _DATA_SET and not self.telling:
            return "none of the {runs} runs has an outcome, a right answer or steps, so there is little to learn from"
        return ""


@dataclass
class LogSummary:
    """What was found in some logs, by format.

    Example:
        >>> summary = LogSummary()
        >>> summary.add(Run(task="2+2?", answer="5", success=False, place="a.jsonl#1", format="unknown"))
        1
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

    def add(self, run: Run) -> int:
        """Count a run, and return its size in tokens."""
        self._files.setdefault(file_of(run), _FileCounts()).add(run)
        return self.formats.setdefault(run.format, FormatCounts()).add(run)

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

    def total(self) -> FormatCounts:
        """Return the counts of all formats together."""
        total = FormatCounts()
        for counts in self.formats.values():
            total.include(counts)
        return total

    def questions(self) -> Iterator[str]:
        """Yield what a person has to confirm before these runs are paid for, a sentence for each kind of doubt."""
        yield from problems_told([problem for problem in self.problems if problem.kind == "doubt"])
        found: dict[str, dict[str, _FileCounts]] = {}
        for name, counts in self._files.items():
            if doubt := counts.doubt():
                found.setdefault(doubt, {})[name] = counts
        for doubt, files in found.items():
            runs = sum(counts.runs for counts in files.values())
            yield f"{_listed(list(files))}: {doubt.format(runs=runs, empty=sum(file.empty for file in files.values()))}"

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


def problems_told(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield a line for each reason, with the first places where it was found.

    Args:
        problems: What cannot be read.

    Example:
        >>> list(problems_told([Problem("a", 6, "a damaged line"), Problem("b", 2, "a damaged line")]))
        ['a, line 6; b, line 2: a damaged line']
    """
    reasons: dict[str, list[str]] = {}
    for problem in problems:
        reasons.setdefault(problem.reason, []).append(problem.where)
    for reason, places in islice(reasons.items(), _REASONS_SHOWN):
        yield f"{_listed(places)}: {reason}"
    if len(reasons) > _REASONS_SHOWN:
        yield f"... and {len(reasons) - _REASONS_SHOWN} more reasons; --json lists all problems"


def _listed(places: Sequence[str]) -> str:
    more = len(places) - _PLACES_SHOWN
    return "; ".join(places[:_PLACES_SHOWN]) + (f" and {more} more" if more > 0 else "")
