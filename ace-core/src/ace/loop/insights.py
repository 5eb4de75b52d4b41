"""A log of insights from attempts at tasks, whose confidence depends on how many tasks support them."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, get_args

from ace._internal.arguments import checked_class, one_of, shown, whole_number
from ace._internal.atomic_file import append_whole, appended_file
from ace._internal.json_fields import Record, list_in, text_in
from ace.deduplication.wording import may_contradict, stated_values, telling_words

if TYPE_CHECKING:
    from ace.protocols.deduplication import EmbedderLike

__all__ = ["ONLINE_ELIGIBLE", "Insight", "InsightLog", "InsightStatus", "confidence", "confidence_word"]

InsightStatus = Literal["pending", "accepted", "refused"]
"""The status of an insight: too few tasks support it, it became a skill, or it did not."""

_STATUSES: Final[tuple[InsightStatus, ...]] = get_args(InsightStatus)

ONLINE_ELIGIBLE: Final = 0.8
"""The default minimum confidence of `ace learn --task`, which learns from one attempt after the other."""

_BY_TASKS: Final = {1: 0.5, 2: 0.7, 3: 0.8, 4: 0.85, 5: 0.9}
_MANY: Final = max(_BY_TASKS)
_CRITICAL: Final = 0.8
_MOST: Final = 0.99
_WORDS: Final = ((0.9, "high"), (0.8, "strong"), (0.7, "moderate"), (0.0, "low"))
_MOST_PROBLEMS: Final = 1000
_DEFAULT_THRESHOLD: Final = 0.85


def confidence(tasks: int, *, critical: bool = False) -> float:
    """Return the confidence of an insight that several tasks support, from 0.5 to 0.99.

    Args:
        tasks: The number of different tasks that support it, at least 1.
        critical: Whether it explains an error with which an attempt failed; its confidence is then at least 0.8.

    Raises:
        ValueError: `tasks` is below 1.

    Example:
        >>> [confidence(tasks) for tasks in (1, 2, 3, 4, 5, 6, 50)]
        [0.5, 0.7, 0.8, 0.85, 0.9, 0.91, 0.99]
        >>> confidence(1, critical=True)
        0.8
    """
    whole_number("tasks", tasks)
    by_tasks = _BY_TASKS.get(tasks) or min(round(_BY_TASKS[_MANY] + (tasks - _MANY) / 100, 2), _MOST)
    return max(by_tasks, _CRITICAL) if critical else by_tasks


def confidence_word(value: float) -> str:
    """Return the word for a confidence: high, strong, moderate or low.

    Args:
        value: The confidence, from 0 to 1.

    Example:
        >>> [confidence_word(value) for value in (0.93, 0.85, 0.7, 0.5)]
        ['high', 'strong', 'moderate', 'low']
    """
    return next(word for least, word in _WORDS if value >= least)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """A recommendation that a reflection drew from one attempt at a task.

    Raises:
        ValueError: The status is unknown, or the confidence is not from 0 to 1.

    Example:
        >>> insight = Insight(task_id="bd-1", trace_id="t1", recommendation="Run tsc before the tests.")
        >>> insight.status, insight.online_eligible, insight.id == Insight.id_of("bd-1", "t1", insight.recommendation)
        ('pending', False, True)
    """

    task_id: str
    """The id of the task."""
    trace_id: str
    """The id of the trace, which records the attempt."""
    recommendation: str
    """What to do in the future."""
    pattern: str = ""
    """What was observed."""
    evidence: Sequence[str] = ()
    """Where in the trace it was observed."""
    confidence: float = _BY_TASKS[1]
    """The confidence, from 0 to 1; see the function `confidence`."""
    tasks: Sequence[str] = ()
    """The ids of the tasks that support it so far, including `task_id`."""
    section: str = ""
    """The section of the skill that it became."""
    delta: str | None = None
    """The skill that it or an earlier insight with the same content became, as `[Bullet #ID] text`."""
    status: InsightStatus = "pending"
    """Whether it is pending, became a skill, or was refused."""
    reason: str = ""
    """Why it was refused, or why it is pending."""
    id: str = ""
    """A hash of the attempt and the recommendation, which identifies the insight if it is recorded again."""
    timestamp: str = ""
    """When it was first recorded: ISO 8601, UTC."""

    def __post_init__(self) -> None:
        one_of("status", self.status, _STATUSES)
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence must be from 0 to 1, got {shown(self.confidence)}")
        if not self.id:
            object.__setattr__(self, "id", self.id_of(self.task_id, self.trace_id, self.recommendation))
        object.__setattr__(self, "tasks", tuple(self.tasks) or (self.task_id,))
        object.__setattr__(self, "evidence", tuple(self.evidence))

    @property
    def online_eligible(self) -> bool:
        """Whether its confidence is at least `ONLINE_ELIGIBLE` (0.8)."""
        return self.confidence >= ONLINE_ELIGIBLE

    @staticmethod
    def id_of(task_id: str, trace_id: str, recommendation: str) -> str:
        """Return the id of an insight.

        Args:
            task_id: The id of the task.
            trace_id: The id of the trace.
            recommendation: The recommendation; case, articles and sentence punctuation are ignored.
        """
        values, words = _pattern_of(recommendation)
        parts = [task_id, trace_id, sorted(values), list(words)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @classmethod
    def from_record(cls, record: object) -> Insight:
        """Return the insight that a line of the log describes.

        Args:
            record: The parsed JSON.

        Raises:
            ValueError: It is not an insight; the message says why.

        Example:
            >>> Insight.from_record({"task_id": "bd-1"})
            Traceback (most recent call last):
            ...
            ValueError: an insight needs the fields task_id, trace_id and recommendation
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"an insight must be a JSON object, got {shown(record)}")
        task_id, trace_id = text_in(record, "task_id", "bead_id"), text_in(record, "trace_id")
        recommendation = text_in(record, "recommendation")
        if not (task_id and trace_id and recommendation):
            raise ValueError("an insight needs the fields task_id, trace_id and recommendation")
        value = record.get("confidence", _BY_TASKS[1])
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"confidence must be a number, got {shown(value)}")
        return cls(
            id=text_in(record, "id"),
            timestamp=text_in(record, "timestamp"),
            task_id=task_id,
            trace_id=trace_id,
            pattern=text_in(record, "pattern"),
            evidence=_texts(record, "evidence"),
            recommendation=recommendation,
            confidence=float(value),
            tasks=_texts(record, "tasks"),
            section=text_in(record, "section"),
            delta=text_in(record, "delta") or None,
            status=_status(record.get("status", "pending")),
            reason=text_in(record, "reason"),
        )

    def as_record(self) -> dict[str, object]:
        """Return the JSON object for the log."""
        return {
            "id": self.id,
            "timestamp": self.timestamp,
            "task_id": self.task_id,
            "trace_id": self.trace_id,
            "pattern": self.pattern,
            "evidence": list(self.evidence),
            "recommendation": self.recommendation,
            "confidence": self.confidence,
            "tasks": list(self.tasks),
            "online_eligible": self.online_eligible,
            "section": self.section,
            "delta": self.delta,
            "status": self.status,
            "reason": self.reason,
        }


def _status(value: object) -> InsightStatus:
    for status in _STATUSES:
        if status == value:
            return status
    raise ValueError(f"status must be pending, accepted or refused, got {shown(value)}")


def _texts(record: Record, name: str) -> tuple[str, ...]:
    return tuple(item for item in list_in(record, name) if isinstance(item, str))


_Pattern = tuple[frozenset[str], tuple[str, ...]]
"""The deciding values of a recommendation, and its significant words in order."""


@dataclass(slots=True)
class _Known:
    """The insights that have been read from the log."""

    by_id: dict[str, Insight] = field(default_factory=dict)
    by_pattern: defaultdict[frozenset[str], defaultdict[tuple[str, ...], dict[str, None]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    of_trace: defaultdict[tuple[str, str], dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def take(self, insight: Insight) -> None:
        self.by_id[insight.id] = insight
        values, words = _pattern_of(insight.recommendation)
        self.by_pattern[values][words][insight.id] = None
        self.of_trace[insight.task_id, insight.trace_id][insight.id] = None


@checked_class
class InsightLog:
    """A log of insights, one JSON object per line. If several lines are about one insight, the last one counts.

    Several threads and processes may record and read insights at the same time.

    Args:
        path: The file. It is created when the first insight is recorded, and is readable only by its owner.
        embedder: Also matches rewordings: recommendations with the same deciding values whose similarity is at least
            the `similarity_threshold` of the embedder. By default, only recommendations with the same significant words
            match.

    Example:
        >>> import tempfile
        >>> log = InsightLog(Path(tempfile.mkdtemp()) / "insights.jsonl")
        >>> _ = log.record([Insight(task_id="bd-1", trace_id="t1", recommendation="Run tsc first.")])
        >>> _ = log.record([Insight(task_id="bd-2", trace_id="t7", recommendation="run tsc first")])
        >>> [insight.task_id for insight in log.same_pattern("Run tsc first!")], len(log.insights())
        (['bd-1', 'bd-2'], 2)
    """

    def __init__(self, path: str | Path = "logs/insights.jsonl", *, embedder: EmbedderLike | None = None) -> None:
        self.path: Final = Path(path)
        """The file."""
        self.embedder = embedder
        self.problems: list[str] = []
        """The lines that are not insights, each with the reason; at most the first 1,000."""
        self._lock = threading.RLock()
        self._known = _Known()
        self._file: tuple[int, int] = (0, 0)
        self._position = 0
        self._line = 0
        self._vectors: dict[str, Sequence[float]] = {}

    def insights(
        self,
        *,
        tasks: Collection[str] = (),
        status: InsightStatus | None = None,
        min_confidence: float = 0.0,
    ) -> list[Insight]:
        """Return the insights, in the order in which they were first recorded.

        Args:
            tasks: Return only insights from these tasks; if it is empty, from all tasks.
            status: Return only insights with this status; None returns all.
            min_confidence: Return only insights with at least this confidence, from 0 to 1.

        Raises:
            OSError: The log exists and cannot be read.
        """
        with self._lock:
            self._refresh()
            return [
                insight
                for insight in self._known.by_id.values()
                if (not tasks or insight.task_id in tasks)
                and status in (None, insight.status)
                and insight.confidence >= min_confidence
            ]

    def of_trace(self, task_id: str, trace_id: str) -> list[Insight]:
        """Return the insights from one attempt.

        Args:
            task_id: The id of the task.
            trace_id: The id of the trace.

        Raises:
            OSError: The log exists and cannot be read.
        """
        with self._lock:
            self._refresh()
            return [self._known.by_id[id] for id in self._known.of_trace.get((task_id, trace_id), ())]

    def same_pattern(self, recommendation: str) -> list[Insight]:
        """Return the insights with the same recommendation, of any status.

        Two recommendations are the same if their deciding values (numbers, codes, names and quoted phrases) are equal,
        and if their significant words are equal or the embedder considers them similar. Texts that may contradict each
        other are never the same.

        Args:
            recommendation: The recommendation to look for.

        Raises:
            OSError: The log exists and cannot be read.
            LLMError: The embedding model could not be reached.
        """
        values, words = _pattern_of(recommendation)
        with self._lock:
            self._refresh()
            candidates = self._known.by_pattern.get(values)
            if not candidates:
                return []
            found = dict(candidates.get(words, {}))
            if self.embedder is not None:
                others = [ids for other, ids in candidates.items() if other != words]
                texts = {self._known.by_id[next(iter(ids))].recommendation: ids for ids in others}
                for text in self._similar(recommendation, list(texts)):
                    found.update(texts[text])
            return sorted((self._known.by_id[id] for id in found), key=lambda insight: insight.timestamp)

    def record(self, insights: Iterable[Insight], *, is_durable: bool = True) -> list[Insight]:
        """Write insights that are new or have changed to the file.

        Args:
            insights: The insights. Those without a timestamp get the current time.
            is_durable: Whether to wait until the insights are on the disk, so that they survive a crash of the system.
                Otherwise, they only survive a crash of the process.

        Returns:
            The insights, with their timestamps.

        Raises:
            OSError: The log cannot be written.
        """
        records = list(insights)
        if not records:
            return []
        with self._lock, appended_file(self.path) as file:
            self._read_new_lines(file)
            dated = [self._with_timestamp(insight) for insight in records]
            changed = [insight for insight in dated if self._known.by_id.get(insight.id) != insight]
            if not changed:
                return dated
            is_torn = file.seek(0, os.SEEK_END) > self._position  # a killed process left a part of a line
            lines = [json.dumps(insight.as_record()) for insight in changed]
            data = "".join(["\n" if is_torn else "", *(f"{line}\n" for line in lines)]).encode()
            append_whole(file, data, is_durable=is_durable)
            if is_torn:
                self._read_new_lines(file)
                return dated
            for insight in changed:  # quicker than to read them again
                self._known.take(insight)
            self._position += len(data)
            self._line += len(lines)
            return dated

    def _with_timestamp(self, insight: Insight) -> Insight:
        if insight.timestamp:
            return insight
        known = self._known.by_id.get(insight.id)
        return replace(insight, timestamp=_now() if known is None else known.timestamp)

    def _similar(self, text: str, others: Sequence[str]) -> list[str]:
        """Return the texts that the embedder considers similar, without those that may contradict `text`."""
        assert self.embedder is not None
        candidates = [other for other in others if not may_contradict(text, other)]
        missing = [candidate for candidate in dict.fromkeys([text, *candidates]) if candidate not in self._vectors]
        if not candidates:
            return []
        if missing:
            self._vectors.update(zip(missing, self.embedder.embed(missing), strict=True))
        threshold = float(getattr(self.embedder, "similarity_threshold", _DEFAULT_THRESHOLD))
        return [
            candidate for candidate in candidates if _cosine(self._vectors[text], self._vectors[candidate]) >= threshold
        ]

    def _refresh(self) -> None:
        """Read the complete lines that were appended since the last call; all lines, if the file was replaced."""
        try:
            status = self.path.stat()
            if (status.st_dev, status.st_ino) == self._file and status.st_size == self._position:
                return
            file = self.path.open("rb", buffering=0)
        except FileNotFoundError:
            if self._position:
                self._forget()
            return
        with file:
            self._read_new_lines(file)

    def _read_new_lines(self, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        is_same = (status.st_dev, status.st_ino) == self._file and status.st_size >= self._position
        if self._position and not is_same:
            self._forget()
        self._file = (status.st_dev, status.st_ino)
        if status.st_size == self._position:
            return
        file.seek(self._position)
        with open(file.fileno(), "rb", closefd=False) as lines:  # the given file may not be buffered
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                self._line += 1
                self._take(line)

    def _forget(self) -> None:
        self._known = _Known()
        self._position = self._line = 0
        self.problems = []

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            self._known.take(Insight.from_record(json.loads(line)))
        except (ValueError, RecursionError) as error:
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(f"{self.path}:{self._line}: {error}")


@functools.lru_cache(maxsize=1024)
def _pattern_of(recommendation: str) -> _Pattern:
    return stated_values(recommendation), telling_words(recommendation)


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    lengths = math.hypot(*first) * math.hypot(*second)
    return sum(a * b for a, b in zip(first, second, strict=True)) / lengths if lengths else 0.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
