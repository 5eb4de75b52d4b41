"""The file of the trace log, to which several processes append while others read it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from ace._internal.arguments import shown, whole_number
from ace._internal.atomic_file import append_line, folder_lock, write_durably
from ace.loop.execution import ExecutionTrace, check_task_id
from ace.pipeline import CancellationToken

__all__ = ["ArchiveReport", "LogProblem", "LoggedTrace", "TraceLog"]

_LONGEST_LINE: Final = 16_000_000
"""In bytes. Memory stays bounded, and no model could read a longer trace."""
_MOST_PROBLEMS: Final = 1000
_LONGEST_PAUSE: Final = 0.1
"""The time after which a cancelled `follow` ends at the latest, in seconds."""
_TAIL: Final = 65_536
"""How many bytes of the last line are compared, to notice that the log was rewritten. The lines of several attempts may
have the same length and the same end."""


class LoggedTrace(NamedTuple):
    """A trace of the log."""

    trace: ExecutionTrace
    """The trace."""
    line: int
    """Its line, from 1."""
    record: Mapping[str, object] = MappingProxyType({})
    """The JSON object in that line."""


class LogProblem(NamedTuple):
    """A line of the log that is not a trace."""

    line: int
    """Its number, from 1."""
    reason: str
    """What is wrong with it."""


class ArchiveReport(NamedTuple):
    """The result of `TraceLog.archive`."""

    archived: int
    """The number of lines that were moved."""
    kept: int
    """The number of lines that are still in the log."""
    path: Path | None
    """The file that they were moved to; None if none was moved."""


class TraceLog:
    """A log of execution traces, one JSON object per line.

    Several threads and processes may append to it, and read it, at the same time.

    Args:
        path: The file. It need not exist: it is created by the first `append`, and is empty until then.

    Example:
        >>> import tempfile
        >>> log = TraceLog(Path(tempfile.mkdtemp()) / "logs" / "execution_traces.jsonl")
        >>> log.append(ExecutionTrace(task_id="bd-1", trace_id="t1", outcome="failure"))
        >>> log.append(ExecutionTrace(task_id="bd-2", trace_id="t2", outcome="success"))
        >>> [(found.trace.place, found.line) for found in log.read(["bd-2"])], log.problems
        ([('bd-2/t2', 2)], [])
    """

    def __init__(self, path: str | Path = "logs/execution_traces.jsonl") -> None:
        self.path: Final = Path(path)
        """The file."""
        self.problems: list[LogProblem] = []
        """The lines that are not traces, of the last `read` or `follow`; at most the first 1,000."""
        self.problem_count = 0
        """How many lines are not traces."""

    def append(self, trace: ExecutionTrace) -> None:
        """Append a trace. It is on the disk when this returns.

        A process that is killed while it appends leaves at most an incomplete last line. The next `append` terminates
        that line, which is then reported in `problems`. If the disk is full, the log is not changed.

        Raises:
            OSError: The log cannot be written.
            TypeError: The trace contains a value that cannot be written as JSON.
        """
        line = json.dumps(trace.as_record())
        with folder_lock(self.path):  # also of `archive`, which replaces the file
            append_line(self.path, line)

    def read(self, tasks: Collection[str] = ()) -> Iterator[LoggedTrace]:
        """Yield the traces that the log contains now, in order. Lines that are not traces are in `problems`.

        Of the traces of other tasks, only the id of the task is checked.

        Args:
            tasks: Only yield the traces of these tasks; of all tasks if it is empty.

        Raises:
            OSError: The log exists and cannot be read.
        """
        self.problems, self.problem_count = [], 0
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        wanted = frozenset(tasks)
        with file:
            size = os.fstat(file.fileno()).st_size
            number = 0
            while file.tell() < size and (line := _next_line(file)):
                number += 1
                found = self._parsed(line, number, wanted)
                if found is not None:
                    yield found

    def follow(
        self,
        tasks: Collection[str] = (),
        *,
        interval: float = 0.5,
        cancel_token: CancellationToken | None = None,
    ) -> Iterator[LoggedTrace]:
        """Yield the traces that the log contains, and then those that are appended, until it is cancelled.

        The log need not exist yet. If it is truncated, replaced or archived in the meantime, it is read from the start.
        Each line is still yielded once, or reported once in `problems`. An incomplete last line is read when it is
        complete.

        Args:
            tasks: Only yield the traces of these tasks; of all tasks if it is empty.
            interval: The time between two looks at the log, in seconds.
            cancel_token: Ends it. Without a token it never ends.

        Raises:
            ValueError: `interval` is not greater than 0.
            OSError: The log exists and cannot be read.
        """
        token = CancellationToken() if cancel_token is None else cancel_token
        return _one_by_one(self.follow_batches(tasks, interval=interval, cancel_token=token), token)

    def follow_batches(
        self,
        tasks: Collection[str] = (),
        *,
        interval: float = 0.5,
        cancel_token: CancellationToken | None = None,
        most: int = 100,
    ) -> Iterator[list[LoggedTrace]]:
        """Like `follow`, but yield lists of the traces that are available at the same time.

        A batch is empty if the log contained only lines that are not traces, which `problems` lists.

        Args:
            tasks: Only yield the traces of these tasks; of all tasks if it is empty.
            interval: The time between two looks at the log, in seconds.
            cancel_token: Ends it. Without a token it never ends.
            most: The maximum length of a batch.

        Raises:
            ValueError: `interval` is not greater than 0, or `most` is below 1.
            OSError: The log exists and cannot be read.
        """
        if not interval > 0:
            raise ValueError(f"interval must be greater than 0 seconds, got {shown(interval)}")
        whole_number("most", most, of="traces")
        self.problems, self.problem_count = [], 0
        token = CancellationToken() if cancel_token is None else cancel_token
        return self._followed(frozenset(tasks), interval, token, most)

    def _followed(
        self, wanted: Collection[str], interval: float, token: CancellationToken, most: int
    ) -> Iterator[list[LoggedTrace]]:
        known: set[bytes] = set()
        followed: _FollowedFile | None = None
        try:
            while True:
                if followed is None:
                    followed = _FollowedFile.opened(self.path)
                if followed is not None:
                    batch: list[LoggedTrace] = []
                    known_problems = self.problem_count
                    for line, number in followed.new_lines():
                        if token.is_cancelled:
                            return
                        found = self._new(line, number, wanted, known)
                        if found is not None:
                            batch.append(found)
                        if len(batch) == most:
                            yield batch
                            batch = []
                    if batch or self.problem_count > known_problems:
                        yield batch
                    if followed.is_replaced(self.path):
                        followed.close()
                        followed = None
                        continue
                if _is_cancelled_within(interval, token):
                    return
        finally:
            if followed is not None:
                followed.close()

    def _new(self, line: bytes, number: int, wanted: Collection[str], known: set[bytes]) -> LoggedTrace | None:
        """Return the trace in a line; None also if the line was already yielded or reported."""
        digest = hashlib.blake2b(line.rstrip(), digest_size=16).digest()
        if digest in known:
            return None
        problems = self.problem_count
        found = self._parsed(line, number, wanted)
        if found is not None or self.problem_count > problems:
            known.add(digest)
        return found

    def archive(self, *, keep_per_task: int = 10, keep_days: float = 30) -> ArchiveReport:
        """Move old traces to a file in the folder `archive` beside the log.

        A trace is moved if it is older than `keep_days`, and if the log contains at least `keep_per_task` later traces
        of its task. Lines that are not traces, and traces without a timestamp, are kept. If the process is killed, no
        trace is lost, but moved traces may still be in the log as well.

        Args:
            keep_per_task: The number of traces of each task to keep, regardless of their age.
            keep_days: Traces up to this age, in days, are kept.

        Raises:
            ValueError: An argument is negative.
            OSError: The log cannot be read, or a file cannot be written.

        Example:
            >>> import tempfile
            >>> log = TraceLog(Path(tempfile.mkdtemp()) / "log.jsonl")
            >>> for day in (1, 2):
            ...     time_of_day = datetime(2026, 1, day, tzinfo=UTC)
            ...     log.append(ExecutionTrace(task_id="bd-1", outcome="success", timestamp=time_of_day))
            >>> report = log.archive(keep_per_task=1)
            >>> report.archived, report.kept, report.path.parent.name
            (1, 1, 'archive')
        """
        whole_number("keep_per_task", keep_per_task, least=0, of="traces")
        if not keep_days >= 0:
            raise ValueError(f"keep_days must be at least 0 days, got {shown(keep_days)}")
        now = datetime.now(UTC)
        with folder_lock(self.path):
            lines = self._lines()
            is_old = _old_lines(lines, keep_per_task, now - timedelta(days=keep_days))
            moved = [line for line, old in zip(lines, is_old, strict=True) if old]
            if not moved:
                return ArchiveReport(0, len(lines), None)
            target = self.path.parent / "archive" / f"{self.path.stem}-{now:%Y%m%dT%H%M%S.%fZ}{self.path.suffix}"
            write_durably(target, b"".join(moved))
            write_durably(self.path, b"".join(line for line, old in zip(lines, is_old, strict=True) if not old))
        return ArchiveReport(len(moved), len(lines) - len(moved), target)

    def _lines(self) -> list[bytes]:
        try:
            with self.path.open("rb") as file:
                return file.readlines()
        except FileNotFoundError:
            return []

    def _parsed(self, line: bytes, number: int, wanted: Collection[str]) -> LoggedTrace | None:
        """Return the trace in a line; None if it is blank, of another task, or a problem, which is then recorded."""
        if not line.strip():
            return None
        try:
            found = _trace_in(line, wanted)
        except ValueError as error:
            self.problem_count += 1
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(LogProblem(number, str(error)))
            return None
        return None if found is None else LoggedTrace(found[0], number, found[1])


class _FollowedFile:
    """A log that is read as it grows. It stays open after it was replaced, so that its last lines are not missed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self._line = 0
        self._tail = b""

    @classmethod
    def opened(cls, path: Path) -> _FollowedFile | None:
        try:
            return cls(path.open("rb"))
        except FileNotFoundError:
            return None

    def close(self) -> None:
        self._file.close()

    def is_replaced(self, path: Path) -> bool:
        """Whether another file is at the path. While there is none, a writer may still append to this one."""
        try:
            return not os.path.samestat(path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def new_lines(self) -> Iterator[tuple[bytes, int]]:
        """Yield the complete lines that have not been read, with their numbers."""
        if self._is_rewritten():
            self._position, self._line, self._tail = 0, 0, b""
        size = os.fstat(self._file.fileno()).st_size
        self._file.seek(self._position)
        while self._position < size and (line := _next_line(self._file)).endswith(b"\n"):
            self._position = self._file.tell()
            self._line += 1
            self._tail = line[-_TAIL:]
            yield line, self._line

    def _is_rewritten(self) -> bool:
        """Whether the file no longer has what was last read of it, such as after a truncation."""
        self._file.seek(self._position - min(len(self._tail), self._position))
        return self._file.read(len(self._tail)) != self._tail


def _one_by_one(batches: Iterator[list[LoggedTrace]], token: CancellationToken) -> Iterator[LoggedTrace]:
    for batch in batches:
        for found in batch:
            if token.is_cancelled:
                return
            yield found


def _is_cancelled_within(seconds: float, token: CancellationToken) -> bool:
    """Wait, and return whether the token was cancelled before or meanwhile."""
    end = time.monotonic() + seconds
    while not token.is_cancelled and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _LONGEST_PAUSE))
    return token.is_cancelled


def _old_lines(lines: list[bytes], keep_per_task: int, oldest: datetime) -> list[bool]:
    """Return for each line whether it is a trace to be archived."""
    later: Counter[str] = Counter()
    old = [False] * len(lines)
    for place in range(len(lines) - 1, -1, -1):
        try:
            found = _trace_in(lines[place], ())
        except ValueError:
            continue
        if found is None:
            continue
        trace, _ = found
        is_old = trace.timestamp is not None and trace.timestamp < oldest
        old[place] = is_old and later[trace.task_id] >= keep_per_task
        later[trace.task_id] += 1
    return old


def _next_line(file: BinaryIO) -> bytes:
    """Return the next line with its end. Of one that is too long, the rest is skipped."""
    line = file.readline(_LONGEST_LINE + 1)
    if len(line) > _LONGEST_LINE and not line.endswith(b"\n"):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
        return line + rest[-1:]
    return line


def _trace_in(line: bytes, wanted: Collection[str]) -> tuple[ExecutionTrace, Mapping[str, object]] | None:
    """Return the trace in a line, and its JSON object; None if it is of another task.

    Raises:
        ValueError: The line is not a trace.
    """
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"the line is longer than {_LONGEST_LINE // 1_000_000} MB")
    try:
        record = json.loads(line.removeprefix(b"\xef\xbb\xbf").rstrip())
    except json.JSONDecodeError as error:
        raise ValueError(f"truncated, or not JSON: {error.msg} (column {error.colno})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    is_checked = bool(wanted) and isinstance(record, dict)
    if is_checked and check_task_id(record.get("bead_id") or record.get("task_id")) not in wanted:
        return None
    try:
        return ExecutionTrace.from_record(record), record
    except RecursionError as error:  # the JSON of a record is written for its hash
        raise ValueError("nested too deeply") from error
