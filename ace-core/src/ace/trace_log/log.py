"""The file of the trace log: it is appended to by several processes while others read it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ace.atomic_file import append_line, folder_lock
from ace.trace_log.execution import ExecutionTrace, check_task_id

__all__ = ["LogProblem", "LoggedTrace", "TraceLog"]

_LONGEST_LINE: Final = 16_000_000
"""In bytes. Memory stays bounded, and no model could read a longer trace."""
_MOST_PROBLEMS: Final = 1000


class LoggedTrace(NamedTuple):
    """A trace of the log."""

    trace: ExecutionTrace
    """The trace."""
    line: int
    """Its line, from 1."""


class LogProblem(NamedTuple):
    """A line of the log that is not a trace."""

    line: int
    """Its number, from 1."""
    reason: str
    """What is wrong with it."""


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
        """The lines that are not traces, of the last `read`; at most the first 1,000."""
        self.problem_count = 0
        """How many lines are not traces."""

    def append(self, trace: ExecutionTrace) -> None:
        """Add a trace. It is on the disk when this returns.

        A process that is killed while it appends leaves an incomplete last line at most, which the next `append`
        ends, so that it becomes a problem of its own. If the disk is full, the log is what it was before.

        Args:
            trace: The trace.

        Raises:
            OSError: The log cannot be written.
            TypeError: The trace contains a value that cannot be written as JSON.
        """
        line = json.dumps(trace.as_record())
        with folder_lock(self.path):
            size = self.path.stat().st_size if self.path.exists() else 0
            try:
                append_line(self.path, line)
            except OSError:
                if self.path.exists() and self.path.stat().st_size > size:
                    os.truncate(self.path, size)  # no other writer has added to it: this one holds the lock
                raise

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

    def _parsed(self, line: bytes, number: int, wanted: Collection[str]) -> LoggedTrace | None:
        """Return the trace in a line; None if it is blank, of another task, or a problem, which is then recorded."""
        if not line.strip():
            return None
        try:
            trace = _trace_in(line, wanted)
        except ValueError as error:
            self.problem_count += 1
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(LogProblem(number, str(error)))
            return None
        return None if trace is None else LoggedTrace(trace, number)


def _next_line(file: BinaryIO) -> bytes:
    """Return the next line with its end. Of one that is too long, the rest is skipped."""
    line = file.readline(_LONGEST_LINE + 1)
    if len(line) > _LONGEST_LINE and not line.endswith(b"\n"):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
        return line + rest[-1:]
    return line


def _trace_in(line: bytes, wanted: Collection[str]) -> ExecutionTrace | None:
    """Return the trace in a line; None if it is of another task.

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
    return ExecutionTrace.from_record(record)
