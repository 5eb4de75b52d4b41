"""The inputs of a command: finds the runs in files, folders, globs and streams, and the problems of other files."""

from __future__ import annotations

import errno
import glob
import os
import random
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from ace.cli.console import note, size_text
from ace.cli.errors import UsageError, check_is_path, near_file
from ace.cli.settings import Settings
from ace.cli.settings_file import MAPPINGS_TABLE, setting_tables
from ace.cli.signals import on_forced_exit
from ace.logs.building import time_of
from ace.logs.damage import Damage
from ace.logs.finding import files_in, not_a_file, reason_of
from ace.logs.mapping import LogMapping, MappingError, mappings_in
from ace.logs.opening import decoded, kind_of_bytes, kind_of_text
from ace.logs.reading import SideFiles, chosen_readers, read_file
from ace.logs.run import Problem, Run
from ace.logs.spool import TraceSpool
from ace.logs.summary import LogSummary
from ace.loop import check_task_id
from ace.runners import RecordedTrace

__all__ = [
    "LARGEST_INPUT",
    "STANDARD_INPUT",
    "FoundRuns",
    "GatheredTraces",
    "RunFilter",
    "TaskChoice",
    "gather_traces",
    "problem_lines",
    "run_filter",
    "task_ids",
]

LARGEST_INPUT: Final = 1_000_000_000
"""The size of the largest file or stream that is read, in bytes, unless the setting `max_input_mb` changes it."""
STANDARD_INPUT: Final = "-"
_CHUNK: Final = 1024 * 1024
_LONGEST_WAIT: Final = 10.0
"""The time within which a program must start writing to a pipe given by the user, in seconds."""
_WAIT_BETWEEN: Final = 0.02
_HEAD_SIZE: Final = 64 * 1024
_NOT_PLAIN: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK", b"SQLite", b"\xff\xfe", b"\xfe\xff")
"""How compressed files, archives, databases and texts in UTF-16 begin."""
_MOST_TASKS_SHOWN: Final = 10
_PATHS_SHOWN: Final = 3
_PROBLEMS_SHOWN: Final = 10
_PATTERN: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of the inputs are wanted, and how they are read."""

    format: str | None = None
    """The name of the reader; by default, the content decides."""
    mappings: Sequence[LogMapping] = ()
    """Mappings of further formats."""
    since: datetime | None = None
    """Runs that began earlier are skipped; those of unknown time are not."""
    left_out: Set[Path] = frozenset()
    """Resolved paths that are skipped inside folders."""
    max_bytes: int = LARGEST_INPUT
    """The maximum size of a file or stream, in bytes."""


def run_filter(settings: Settings, left_out: Set[Path] = frozenset()) -> RunFilter:
    """Return which runs the settings want, with the mappings of the settings files.

    Args:
        settings: The settings of the command line.
        left_out: Resolved paths that are skipped inside folders.

    Raises:
        UsageError: A mapping is not valid, or `since` is not a time.
    """
    return RunFilter(
        format=settings.format,
        mappings=_mappings(settings),
        since=None if settings.since is None else moment_of(settings.since, "since"),
        left_out=left_out,
        max_bytes=settings.max_input_bytes,
    )


def _mappings(settings: Settings) -> list[LogMapping]:
    found = []
    try:
        if settings.map is not None:
            found += mappings_in(Path(settings.map))
        for table in setting_tables(MAPPINGS_TABLE):
            listed = table.values.get("mapping")
            for values in listed if isinstance(listed, list) else []:
                # A project that someone else has written must not choose which folders --all looks into.
                found.append(LogMapping.from_fields({**values, "places": []} if table.is_project else values))
    except OSError as error:
        raise UsageError(f"--map: {settings.map}: {reason_of(error)}") from error
    except MappingError as error:
        raise UsageError(str(error)) from error
    return found


def moment_of(text: str, option: str) -> datetime:
    """Return the time that `12h`, `7d`, `2w` or a date means.

    Args:
        text: What the user wrote.
        option: Where, for the error.

    Raises:
        UsageError: It is not a time.
    """
    match = re.fullmatch(r"(\d{1,6})\s*([hdw])", text.strip())
    if match:
        return datetime.now(UTC) - timedelta(hours=int(match[1]) * {"h": 1, "d": 24, "w": 168}[match[2]])
    found = time_of(text)
    if found is None:
        raise UsageError(f"{option} takes 12h, 7d, 2w or a date such as 2026-11-28, got {text!r}")
    return found


class FoundRuns:
    """The runs of some inputs, in order; iterate over it once, in a `with` block. Streams are copied to files.

    Args:
        paths: Files, folders, globs, and `-` for standard input.
        wanted: Which runs are wanted.

    Raises:
        UsageError: A path does not exist, or no reader has the chosen name.
    """

    def __init__(self, paths: Sequence[str], wanted: RunFilter) -> None:
        _check_paths(paths)
        try:
            self._readers = chosen_readers(wanted.format, wanted.mappings)
        except ValueError as error:
            raise UsageError(f"--format: {error}") from error
        self._paths = paths
        self._wanted = wanted
        self._copies = ExitStack()
        self._seen: set[tuple[int, int]] = set()
        self.side_files = 0
        """How many files were skipped because they belong to a log beside or above them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._copies.close()

    def __iter__(self) -> Iterator[Run | Problem]:
        """Yield the runs and the problems."""
        for path in self._paths:
            if path == STANDARD_INPUT:
                yield from self._from_stream(sys.stdin.buffer, "stdin")
                continue
            for name in [path] if os.path.lexists(path) else _matches(path):
                yield from self._in_folder(Path(name)) if Path(name).is_dir() else self._named(name, path)

    def _in_folder(self, folder: Path) -> Iterator[Run | Problem]:
        side_files = SideFiles(folder, self._readers)
        for found in files_in(folder, self._readers, self._wanted.left_out):
            if isinstance(found, Problem):
                yield found
            elif not self._is_new(found):
                continue
            elif found != folder and side_files.owner_of(found) is not None:
                self.side_files += 1
            else:
                yield from self._file(str(found), str(found))

    def _named(self, name: str, argument: str) -> Iterator[Run | Problem]:
        """Yield the runs of a file that an argument names, which may also be a pipe, or the terminal."""
        path = Path(name)
        try:
            found = path.stat()
        except OSError as error:
            yield Problem(name, None, reason_of(error))
            return
        other = not_a_file(found.st_mode)
        if not self._is_new(path):
            return
        if not other:
            yield from self._file(name, name)
        elif name == argument and (stat.S_ISFIFO(found.st_mode) or _is_typed(found)):
            yield from self._from_pipe(name)
        else:
            yield Problem(name, None, other)

    def _is_new(self, path: Path) -> bool:
        try:
            found = path.stat()
        except OSError:  # the reader will say so
            return True
        key = (found.st_dev, found.st_ino)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _file(self, path: str, name: str) -> Iterator[Run | Problem]:
        size = Path(path).stat().st_size
        if size > self._wanted.max_bytes and not Path(path).is_dir():
            yield Problem(name, None, _too_large(size, self._wanted.max_bytes))
            return
        for found in read_file(Path(path), self._readers, name, is_forced=self._wanted.format is not None):
            if isinstance(found, Problem) or self._is_recent(found):
                yield found

    def _is_recent(self, run: Run) -> bool:
        began = run.started or run.ended
        return self._wanted.since is None or began is None or began >= self._wanted.since

    def _from_pipe(self, path: str) -> Iterator[Run | Problem]:
        """Yield the runs in a pipe, such as <(command) in a shell, or in the input of a terminal."""
        try:
            # Opened in the usual way, a pipe that nothing writes into would be waited for indefinitely.
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            with os.fdopen(number, "rb") as stream:
                has_name = Path(path).resolve().exists()  # one that the shell made has its writer already
                first = _first_bytes(number, path) if has_name and not os.isatty(number) else b""
                os.set_blocking(number, True)
                yield from self._from_stream(stream, path, first)
        except OSError as error:
            yield Problem(path, None, reason_of(error))

    def _from_stream(self, stream: BinaryIO, name: str, first: bytes = b"") -> Iterator[Run | Problem]:
        """Yield the runs in a stream. It can only be read once, so it is copied to a temporary file."""
        target = self._copies.enter_context(tempfile.NamedTemporaryFile(prefix="ace-input-"))  # noqa: SIM115  # closed by `_copies`
        self._copies.enter_context(on_forced_exit(lambda: Path(target.name).unlink(missing_ok=True)))
        most = self._wanted.max_bytes
        try:
            head = first + stream.read(_HEAD_SIZE)
            target.write(head)
            size = len(head)
            # Of an endless stream that cannot be a log, the beginning is enough to say so.
            while size <= most and (size > len(head) or _may_be_log(head)) and (chunk := stream.read(_CHUNK)):
                target.write(chunk)
                size += len(chunk)
            target.flush()
        except OSError as error:
            yield Problem(name, None, reason_of(error))
            return
        if size > most:
            yield Problem(name, None, _too_large(size, most))
        else:
            yield from self._file(target.name, name)


@dataclass
class GatheredTraces:
    """The traces of all inputs, in order; use it in a `with` block. They stay in a spool until they are needed."""

    traces: list[RecordedTrace] = field(default_factory=list)
    """The traces to learn from."""
    problems: list[Problem] = field(default_factory=list)
    """What cannot be read."""
    is_complete: bool = True
    """Whether all inputs were looked at; not if a limit was reached before."""
    summary: LogSummary = field(default_factory=LogSummary)
    """What was found, by format."""
    began: list[datetime | None] = field(default_factory=list)
    """When each run began, in the order in which they were found; None where that is not known."""
    tokens: list[int] = field(default_factory=list)
    """The estimated size of each run, in the same order."""
    _spool: TraceSpool = field(default_factory=TraceSpool)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._spool.close()

    def add(self, run: Run) -> None:
        """Add the trace of a run."""
        self.tokens.append(self.summary.add(run))
        self.began.append(run.started or run.ended)
        # Attempts at one task are shuffled together.
        group = run.place.partition("/")[0] if run.format == "execution_trace" else ""
        self.traces.append(RecordedTrace(self._spool.add(run.to_trace()), run.place, group))


def gather_traces(
    paths: Sequence[str],
    *,
    limit: int | None = None,
    shuffle: int | None = None,
    wanted: RunFilter | None = None,
    accepts: Callable[[Run], bool] = lambda run: True,
) -> GatheredTraces:
    """Find the runs of all inputs.

    Args:
        paths: Files, folders, globs, and `-` for standard input.
        limit: The maximum number of runs.
        shuffle: A seed; the runs are taken in a random order that it determines.
        wanted: Which runs are wanted; by default all.
        accepts: Whether a run is wanted; the result may be empty if it accepts none.

    Raises:
        UsageError: A path does not exist, or nothing at all can be learned from.
    """
    gathered = GatheredTraces()
    has_runs = False
    try:
        with FoundRuns(paths, wanted or RunFilter()) as found_runs:
            for found in found_runs:
                if isinstance(found, Problem):
                    gathered.summary.add_problem(found)
                    if found.kind == "loss":
                        gathered.problems.append(found)
                    continue
                has_runs = True
                if not accepts(found):
                    continue
                gathered.add(found)
                if limit is not None and shuffle is None and len(gathered.traces) >= limit:
                    gathered.is_complete = False
                    break
            gathered.summary.side_files = found_runs.side_files
        if not has_runs:
            raise UsageError(_nothing_found(paths, gathered.problems))
    except BaseException:
        gathered._spool.close()
        raise
    if shuffle is not None:
        random.Random(shuffle).shuffle(gathered.traces)
        gathered.traces = gathered.traces[:limit]
    return gathered


def _first_bytes(number: int, path: str) -> bytes:
    """Wait until a program writes to a pipe, and return what was read.

    Raises:
        OSError: No program wrote to it in time.
    """
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            first = os.read(number, _HEAD_SIZE)
        except BlockingIOError:  # a writer is there, and has written nothing so far
            return b""
        if first:
            return first
        if time.monotonic() > deadline:
            raise OSError(errno.EPIPE, f"no program wrote into this pipe within {_LONGEST_WAIT:g} s", path)
        time.sleep(_WAIT_BETWEEN)


def _may_be_log(head: bytes) -> bool:
    """Whether a stream that begins like this may be a log. What is in another encoding or packed is seen at its end."""
    if head.startswith(_NOT_PLAIN):
        return True
    return not kind_of_bytes(head) and not kind_of_text(decoded(head, Damage()))


def _too_large(size: int, most: int) -> str:
    return f"{size_text(size)}; at most {size_text(most)} are read of one input (the setting max_input_mb)"


def problem_lines(problems: Sequence[Problem]) -> str:
    """Return the lines of an error that list problems, each after a line break.

    Args:
        problems: What cannot be read.

    Example:
        >>> print("wrong:" + problem_lines([Problem("a.json", None, "the file is empty")]))
        wrong:
            a.json: the file is empty
    """
    lines = [str(problem) for problem in problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"... and {len(problems) - _PROBLEMS_SHOWN} more")
    return "".join(f"\n    {line}" for line in lines)


def _nothing_found(paths: Sequence[str], problems: Sequence[Problem]) -> str:
    names = ", ".join(repr(path) for path in paths[:_PATHS_SHOWN])
    if len(paths) > _PATHS_SHOWN:
        names += f" and {len(paths) - _PATHS_SHOWN} more"
    what = "give files, folders or globs of logs, or - for standard input"
    if not problems:
        return f"no traces in {names}; {what}"
    if len(problems) == 1:
        return f"nothing in {names} can be used; {problems[0]}; {what}"
    return f"nothing in {names} can be used; {what}{problem_lines(problems)}"


def _check_paths(paths: Sequence[str]) -> None:
    """Check that each argument names something that exists.

    Args:
        paths: Files, folders, globs, and `-` for standard input.

    Raises:
        UsageError: One of them does not exist, matches nothing, or is the location of a store.
    """
    missing = []
    for path in paths:
        if path == STANDARD_INPUT or os.path.lexists(path):
            continue
        check_is_path("PATH", path)
        if not _PATTERN & set(path):
            missing.append(path)
        elif not _matches(path):
            raise UsageError(f"no file matches {path!r}; check the pattern")
    if missing:
        near = next(filter(None, map(near_file, missing)), "; check the path")
        raise UsageError(f"no such file or folder: {', '.join(map(repr, missing))}{near}")


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  # pathlib takes no absolute pattern


def _is_typed(found: os.stat_result) -> bool:
    """Whether a path such as /dev/stdin is the terminal of this command, the only device whose input ends."""
    try:
        return os.isatty(0) and os.path.samestat(found, os.fstat(0))
    except OSError:  # standard input is closed
        return False


def task_ids(values: Iterable[str], source: str = "--task") -> tuple[str, ...]:
    """Return the ids of tasks that an option names, without repetitions.

    Args:
        values: The values of the option; each may be several ids, separated by commas.
        source: The option, for the error.

    Raises:
        UsageError: One of them is not the id of a task.
    """
    found = dict.fromkeys(id.strip() for value in values for id in value.split(","))
    for id in found:
        try:
            check_task_id(id)
        except ValueError as error:
            raise UsageError(f"{source}: {error}") from error
    return tuple(found)


class TaskChoice:
    """Accepts the runs of some tasks, and remembers which tasks it has seen.

    Args:
        ids: The ids of the tasks; if it is empty, every run is accepted.
    """

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self.ids = ids
        self._seen: dict[str, None] = {}

    def accepts(self, run: Run) -> bool:
        """Return whether a run is an attempt at one of the tasks.

        Args:
            run: A run that was found.
        """
        if not self.ids:
            return True
        if run.format != "execution_trace":
            return False
        task = run.place.partition("/")[0]  # the place of a logged trace is TASK/TRACE_ID
        self._seen[task] = None
        return task in self.ids

    def check(self, *, is_complete: bool) -> None:
        """Report tasks without traces.

        Args:
            is_complete: Whether all inputs were looked at.

        Raises:
            UsageError: None of the tasks has a trace.
        """
        missing = [task for task in self.ids if task not in self._seen]
        if not missing or not is_complete:
            return
        named = ", ".join(missing)
        if len(missing) < len(self.ids):
            note(f"ace: no trace of {named}; the other tasks are learned from")
            return
        known = ", ".join(list(self._seen)[:_MOST_TASKS_SHOWN])
        more = f" and {len(self._seen) - _MOST_TASKS_SHOWN} more" if len(self._seen) > _MOST_TASKS_SHOWN else ""
        has = f"has traces of {known}{more}" if known else "has no traces of tasks"
        raise UsageError(f"no trace of {named}; the input {has}")
