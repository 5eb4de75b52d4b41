"""`ace status`: what was learned from attempts at tasks, what is pending, and which process is learning. Read-only."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ace.cli.console import counted, note, print_json, print_table, print_text, shown_time, visible
from ace.cli.errors import DONE
from ace.cli.options import JsonFlag, SkillbookOption, check_from_one
from ace.cli.settings import Settings, load_settings
from ace.cli.skillbooks.opened_book import SkillbookPlace, opened
from ace.evaluation.counters import counter_metrics
from ace.loop import InsightLog, LoggedTrace, TraceLog, confidence_word, running_watcher

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["command"]

_LONGEST = 60
"""The maximum length of a description, in characters."""
_WORDS = ("high", "strong", "moderate", "low")


def command(
    *,
    tasks: int = 5,
    skillbook: SkillbookOption = None,
    logs: str | None = None,
    as_json: JsonFlag = False,
) -> int:
    """Show the skills, the last attempts at tasks, pending insights, the last accepted version, and the watcher.

    The watcher is the process of `ace learn --watch`. Nothing is changed.

    For example:

        ace status
        ace status --tasks 20

    Args:
        tasks: The number of recent attempts to show.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        logs: The folder of the trace log, the insights and the artifacts. [env: ACE_LOGS] [default: logs]
        as_json: Print one JSON object.
    """
    check_from_one({"--tasks": tasks})
    settings = load_settings({"skillbook": skillbook, "logs": logs})
    found = _status(settings, tasks)
    if as_json:
        print_json(found.as_json())
        return DONE
    if found.is_empty:
        print_text(
            "Nothing was recorded or learned here yet. Record an attempt at a task, then learn from it:\n\n"
            "  ace capture --task ID --run -- COMMAND\n  ace learn --task ID"
        )
        return DONE
    _print(found)
    return DONE


@dataclass(frozen=True, kw_only=True)
class _Book:
    """The state of the skillbook."""

    version: int | None
    skills: int
    judged: int
    average_helpful: float
    average_harmful: float
    net: int
    sections: Mapping[str, int]
    artifact_version: int | None
    """The last accepted version that has a folder."""
    artifact: str | None
    """That folder."""
    without_artifact: Sequence[int]
    """The accepted versions whose folder is not complete; the next run writes it."""


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """An attempt at a task."""

    task: str
    trace: str
    outcome: str
    description: str
    timestamp: str | None
    learned: bool


@dataclass(frozen=True, kw_only=True)
class _Status:
    """The contents of the report."""

    skillbook: str
    log: str
    book: _Book | None
    """None if there is no skillbook."""
    traces: int
    """The number of attempts in the log."""
    attempts: Sequence[_Attempt]
    """The last ones, newest first."""
    insights: Mapping[str, int]
    """The number of insights by status."""
    pending: Mapping[str, int]
    """The number of pending insights by confidence."""
    watcher: int | None
    """The process that watches the log."""
    problems: Sequence[str] = field(default=())
    """The files that contain unreadable lines."""

    @property
    def is_empty(self) -> bool:
        return self.book is None and not self.traces and not self.insights and not self.problems and not self.watcher

    def as_json(self) -> dict[str, object]:
        return {"command": "status", **asdict(self)}


def _status(settings: Settings, tasks: int) -> _Status:
    place = SkillbookPlace(settings.skillbook)
    log = TraceLog(settings.trace_log)
    traces, last = 0, deque[LoggedTrace](maxlen=tasks)
    for found in log.read():
        traces += 1
        last.append(found)
    insights = InsightLog(settings.insights)
    known = insights.insights()
    problems = [] if not log.problem_count else [f"{log.path}: {counted(log.problem_count, 'line')} cannot be read"]
    if insights.problems:
        problems.append(f"{insights.path}: {counted(len(insights.problems), 'line')} cannot be read")
    with _book_at(place) as book:
        return _Status(
            skillbook=str(place),
            log=str(log.path),
            book=None if book is None else _about(book, settings.artifacts),
            traces=traces,
            attempts=_attempts(book, reversed(last)),
            insights=dict(Counter(insight.status for insight in known)),
            pending=dict(
                Counter(confidence_word(insight.confidence) for insight in known if insight.status == "pending")
            ),
            watcher=running_watcher(log.path, settings.skillbook),
            problems=problems,
        )


@contextmanager
def _book_at(place: SkillbookPlace) -> Iterator[Skillbook | None]:
    if place.file is not None and not place.file.exists():
        yield None
        return
    with opened(place.location) as book:
        yield book


def _about(book: Skillbook, artifacts: Path) -> _Book:
    from ace.loop.artifacts import artifacts_in, unfinished_artifacts

    metrics = counter_metrics(book)
    version = book.version
    folders = [artifact for artifact in artifacts_in(artifacts) if version is not None and artifact.version <= version]
    last = max(folders, default=None)
    return _Book(
        version=version,
        skills=metrics.skills,
        judged=metrics.judged,
        average_helpful=round(metrics.average_helpful, 2),
        average_harmful=round(metrics.average_harmful, 2),
        net=metrics.net,
        sections=dict(metrics.sections),
        artifact_version=None if last is None else last.version,
        artifact=None if last is None else str(last.folder),
        without_artifact=unfinished_artifacts(artifacts, book),
    )


def _attempts(book: Skillbook | None, last: Iterator[LoggedTrace]) -> list[_Attempt]:
    from ace.loop import execution_to_trace
    from ace.runners import RecordedTrace
    from ace.runners.run_record import LearnedContents

    store = None if book is None else book.store
    learned = None if store is None else LearnedContents(store, "")
    return [
        _Attempt(
            task=trace.task_id,
            trace=trace.place,
            outcome=trace.outcome,
            description=trace.task_description,
            timestamp=None if trace.timestamp is None else trace.timestamp.isoformat(),
            learned=learned is not None and learned.knows(RecordedTrace(execution_to_trace(trace), trace.place)),
        )
        for trace, _, _ in last
    ]


def _print(found: _Status) -> None:
    print_text("\n".join(_book_lines(found)))
    if found.book is not None and found.book.sections:
        print_table(["section", "skills"], [[name, str(count)] for name, count in found.book.sections.items()])
    if found.attempts:
        shown = "" if found.traces <= len(found.attempts) else f" (the last {len(found.attempts)})"
        print_text(f"\n{counted(found.traces, 'attempt')} in {found.log}{shown}")
        rows = [
            [
                attempt.task,
                attempt.outcome,
                "yes" if attempt.learned else "no",
                _when(attempt),
                _short(attempt.description),
            ]
            for attempt in found.attempts
        ]
        print_table(["task", "outcome", "learned", "recorded (UTC)", "description"], rows)
    print_text("\n" + "\n".join(_other_lines(found)))
    for problem in found.problems:
        note(visible(f"ace: {problem}"))


def _book_lines(found: _Status) -> list[str]:
    book = found.book
    if book is None:
        return [f"skills    none yet; `ace learn --task ID` learns them into {found.skillbook}"]
    version = "" if book.version is None else f", version {book.version}"
    lines = [f"skills    {book.skills} in {found.skillbook}{version}; net score {book.net:+d}"]
    if book.judged:
        lines.append(
            f"judged    {book.judged} of them; on average helpful {book.average_helpful:g}, "
            f"harmful {book.average_harmful:g}"
        )
    return lines


def _other_lines(found: _Status) -> list[str]:
    lines = []
    by_word = ", ".join(f"{found.pending[word]} {word}" for word in _WORDS if found.pending.get(word))
    ended = [status for status in ("accepted", "refused") if found.insights.get(status)]
    others = ", ".join(f"{found.insights[status]} {status}" for status in ended)
    if found.insights:
        pending = f"{found.insights.get('pending', 0)} pending" + (f" ({by_word})" if by_word else "")
        lines.append(f"insights  {', '.join(filter(None, (pending, others)))}")
    book = found.book
    if book is not None and book.artifact is not None:
        lines.append(f"kept      version {book.artifact_version}, {book.artifact}")
    if book is not None and book.without_artifact:
        versions = ", ".join(map(str, book.without_artifact))
        lines.append(f"          the folder of version {versions} is not complete; the next run completes it")
    lines.append(f"watcher   {'not running' if found.watcher is None else f'process {found.watcher}'}")
    return lines


def _when(attempt: _Attempt) -> str:
    return "-" if attempt.timestamp is None else shown_time(attempt.timestamp)


def _short(text: str) -> str:
    """Return the first line of a description, shortened if necessary."""
    line = " ".join(text.strip().split("\n", 1)[0].split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
