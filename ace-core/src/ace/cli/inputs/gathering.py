"""Gathers the traces of all inputs, or of some tasks, and the problems of those that cannot be read."""

from __future__ import annotations

import errno
import glob
import json
import os
import random
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from ace.cli.console import note
from ace.cli.errors import UsageError, check_is_path
from ace.cli.inputs.problems import LARGEST_INPUT, InputProblem, not_a_file, problem_lines, reason_of, too_large
from ace.cli.inputs.splitting import HEAD_SIZE, Found, foreign_kind, split_file
from ace.cli.inputs.stored_record import StoredRecord
from ace.cli.signals import on_forced_exit
from ace.protocols.trace_converters import AmbiguousTraceError, find_trace_converter
from ace.runners import RecordedTrace
from ace.trace_log import check_task_id

__all__ = ["STANDARD_INPUT", "GatheredTraces", "TaskChoice", "event_files", "gather_traces", "task_ids"]

_CHUNK: Final = 1024 * 1024
_LONGEST_WAIT: Final = 10.0
"""The time within which a program must start writing to a pipe given by the user, in seconds."""
_WAIT_BETWEEN: Final = 0.02

STANDARD_INPUT = "-"
_MOST_TASKS_SHOWN = 10
_PATHS_SHOWN: Final = 3
_PATTERN = frozenset("*?[")

_LINES_LOOKED_AT: Final = 50
_FEWEST: Final = 3
_IDS: Final = ("uuid", "id")
_PARENTS: Final = ("parentUuid", "parentId", "parent_uuid", "parent_id")
_SESSIONS: Final = ("sessionId", "session_id", "conversationId", "conversation_id", "threadId", "thread_id")
_OF_TRACES: Final = frozenset({"question", "task", "input", "query", "prompt", "messages", "feedback", "ground_truth"})


@dataclass
class GatheredTraces:
    """The traces of all inputs, in order; use it in a `with` block. The records stay in their files until read."""

    traces: list[RecordedTrace] = field(default_factory=list)
    """The records to learn from."""
    problems: list[InputProblem] = field(default_factory=list)
    """The inputs that cannot be read."""
    is_complete: bool = True
    """Whether all inputs were looked at; not if a limit was reached before."""
    _copies: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._copies.close()


def gather_traces(
    paths: Sequence[str],
    *,
    limit: int | None = None,
    shuffle: int | None = None,
    left_out: Set[Path] = frozenset(),
    max_bytes: int = LARGEST_INPUT,
    accepts: Callable[[RecordedTrace], bool] = lambda trace: True,
) -> GatheredTraces:
    """Find the records of all inputs.

    Args:
        paths: Files, folders, globs, and `-` for standard input.
        limit: The maximum number of traces.
        shuffle: A seed; the traces are taken in a random order that it determines.
        left_out: Resolved paths that are skipped inside folders.
        max_bytes: The maximum size of a file or stream, in bytes.
        accepts: Whether a trace is wanted; the result may be empty if it accepts none.

    Raises:
        UsageError: A path does not exist, or nothing at all can be learned from.
    """
    _check_paths(paths)
    gathered = GatheredTraces()
    has_traces = False
    try:
        for found in _all_found(paths, left_out, gathered._copies, max_bytes):
            if isinstance(found, InputProblem):
                gathered.problems.append(found)
                continue
            has_traces = True
            if not accepts(found):
                continue
            gathered.traces.append(found)
            if limit is not None and shuffle is None and len(gathered.traces) >= limit:
                gathered.is_complete = False
                break
        if not has_traces:
            raise UsageError(_nothing_found(paths, gathered.problems))
    except BaseException:
        gathered._copies.close()
        raise
    if shuffle is not None:
        random.Random(shuffle).shuffle(gathered.traces)
        gathered.traces = gathered.traces[:limit]
    return gathered


def _all_found(paths: Sequence[str], left_out: Set[Path], copies: ExitStack, max_bytes: int) -> Iterator[Found]:
    for path in _find_files(paths, left_out):
        if isinstance(path, InputProblem):
            yield path
        elif path == STANDARD_INPUT:
            yield from _split_stream(sys.stdin.buffer, "stdin", copies, max_bytes)
        elif Path(path).is_file():
            yield from split_file(path, path, max_bytes)
        else:
            yield from _split_pipe(path, copies, max_bytes)


def _split_pipe(path: str, copies: ExitStack, max_bytes: int) -> Iterator[Found]:
    """Split the contents of a pipe, such as <(command) in a shell, or the input of a terminal."""
    try:
        # Opened in the usual way, a pipe that nothing writes into would be waited for indefinitely.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(number, "rb") as stream:
            has_name = Path(path).resolve().exists()  # one that the shell made has its writer already
            first = _first_bytes(number, path) if has_name and not os.isatty(number) else b""
            os.set_blocking(number, True)
            yield from _split_stream(stream, path, copies, max_bytes, first)
    except OSError as error:
        yield InputProblem(path, reason_of(error))


def _first_bytes(number: int, path: str) -> bytes:
    """Wait until a program writes to a pipe, and return what was read.

    Raises:
        OSError: No program wrote to it in time.
    """
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            first = os.read(number, HEAD_SIZE)
        except BlockingIOError:  # a writer is there, and has written nothing so far
            return b""
        if first:
            return first
        if time.monotonic() > deadline:
            raise OSError(errno.EPIPE, f"no program wrote into this pipe within {_LONGEST_WAIT:g} s", path)
        time.sleep(_WAIT_BETWEEN)


def _split_stream(
    stream: BinaryIO, name: str, copies: ExitStack, max_bytes: int, first: bytes = b""
) -> Iterator[Found]:
    """Split the contents of a stream. It can only be read once, so it is copied to a temporary file."""
    target = copies.enter_context(tempfile.NamedTemporaryFile(prefix="ace-input-"))  # noqa: SIM115  # closed by `copies`
    copies.enter_context(on_forced_exit(lambda: Path(target.name).unlink(missing_ok=True)))
    try:
        head = first + stream.read(HEAD_SIZE)
        target.write(head)
        size = len(head)
        # Of an endless stream that cannot be a trace, the beginning is enough to say so.
        while size <= max_bytes and (size > len(head) or _may_be_trace(head)) and (chunk := stream.read(_CHUNK)):
            target.write(chunk)
            size += len(chunk)
        target.flush()
    except OSError as error:
        yield InputProblem(name, reason_of(error))
        return
    if size > max_bytes:
        yield InputProblem(name, too_large(size, max_bytes))
    else:
        yield from split_file(target.name, name, max_bytes)


def _may_be_trace(head: bytes) -> bool:
    try:
        return foreign_kind(head) is None or find_trace_converter(head) is not None
    except AmbiguousTraceError:  # reported when the copy is read
        return True


def _nothing_found(paths: Sequence[str], problems: Sequence[InputProblem]) -> str:
    given = ", ".join(repr(path) for path in paths[:_PATHS_SHOWN])
    if len(paths) > _PATHS_SHOWN:
        given += f" and {len(paths) - _PATHS_SHOWN} more"
    what = "give files, folders or globs of JSON, JSONL or text, or - for standard input"
    if not problems:
        return f"no traces in {given}; {what}"
    if len(problems) == 1:
        return f"nothing in {given} can be used; {problems[0].place}: {problems[0].reason}; {what}"
    return f"nothing in {given} can be used; {what}{problem_lines(problems)}"


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
            missing.append(repr(path))
        elif not _matches(path):
            raise UsageError(f"no file matches {path!r}; check the pattern")
    if missing:
        raise UsageError(f"no such file or folder: {', '.join(missing)}; check the path")


def _find_files(paths: Sequence[str], left_out: Set[Path] = frozenset()) -> Iterator[str | InputProblem]:
    """Yield the files in the order of the arguments, those of a folder by name; each file once.

    Names that begin with a dot are skipped inside folders.

    Args:
        paths: Files, folders, globs, and `-` for standard input, as `_check_paths` accepts them.
        left_out: Resolved paths that are skipped inside folders.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        named = [path] if path == STANDARD_INPUT or os.path.lexists(path) else _matches(path)
        for name in named:
            if name == STANDARD_INPUT:
                yield name
            elif Path(name).is_dir():
                yield from _in_folder(Path(name), _folders_above(Path(name)), left_out, seen)
            else:
                yield from _file(Path(name), seen, is_named=name in paths)


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  # pathlib takes no absolute pattern


def _folders_above(folder: Path) -> frozenset[tuple[int, int]]:
    """Return the folders that a link inside this one must not lead to, because the search would never end."""
    return frozenset(_key(parent.stat()) for parent in folder.resolve().parents)


def _in_folder(
    folder: Path, above: frozenset[tuple[int, int]], left_out: Set[Path], seen: set[tuple[int, int]]
) -> Iterator[str | InputProblem]:
    try:
        own = _key(folder.stat())
        if own in above:
            yield InputProblem(str(folder), "a symbolic link that leads back to a folder above it")
            return
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        resolved = folder.resolve()
    except OSError as error:
        yield InputProblem(str(folder), reason_of(error))
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith(".") or resolved / entry.name in left_out:
            continue
        if _is_folder(entry):
            yield from _in_folder(path, above | {own}, left_out, seen)
        else:
            yield from _file(path, seen)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself; opening it will say so.
        return False


def _file(path: Path, seen: set[tuple[int, int]], *, is_named: bool = False) -> Iterator[str | InputProblem]:
    """Yield a file that has an end, or the reason why it cannot be read.

    A pipe is read only if the user named it: a pipe found in a folder has no writer, and reading it would block.
    """
    try:
        found = path.stat()
    except OSError as error:
        yield InputProblem(str(path), reason_of(error))
        return
    if _key(found) in seen:
        return
    seen.add(_key(found))
    other = not_a_file(found.st_mode)
    if other and not (is_named and (stat.S_ISFIFO(found.st_mode) or _is_typed(found))):
        yield InputProblem(str(path), other)
        return
    yield str(path)


def _is_typed(found: os.stat_result) -> bool:
    """Whether a path such as /dev/stdin is the terminal of this command, the only device whose input ends."""
    try:
        return os.isatty(0) and os.path.samestat(found, os.fstat(0))
    except OSError:  # standard input is closed
        return False


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def event_files(traces: Sequence[RecordedTrace]) -> list[str]:
    """Return the names of the files whose lines were read as traces but are probably the events of one session.

    It checks for properties that the events of all agents share. Specific formats are the task of plugins.

    Args:
        traces: The traces.
    """
    lines: Counter[str] = Counter()
    names: dict[str, str] = {}
    for trace in traces:
        record = trace.record
        if isinstance(record, StoredRecord) and record.form == "json":
            lines[record.path] += 1
            names.setdefault(record.path, trace.place.rpartition("#")[0])
    return [names[path] for path, count in lines.items() if count >= _FEWEST and _are_events(list(_head(path)))]


def _head(path: str) -> Iterator[Mapping[str, object]]:
    with Path(path).open("rb") as file:
        head = file.read(HEAD_SIZE)
    for line in head.split(b"\n")[:_LINES_LOOKED_AT]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # the head ends in it, or it has been reported
            continue
        if isinstance(record, dict):
            yield record


def _are_events(records: Sequence[Mapping[str, object]]) -> bool:
    """Whether most records are not complete traces, but refer to a previous one or to the same session."""
    traces = sum(bool(_OF_TRACES & record.keys()) for record in records)
    if len(records) < _FEWEST or traces * 2 > len(records):
        return False
    ids = {_text(record, _IDS) for record in records} - {""}
    linked = sum(_text(record, _PARENTS) in ids for record in records)
    sessions = Counter(_text(record, _SESSIONS) for record in records)
    del sessions[""]
    return max(linked, *sessions.values(), 0) * 2 > len(records)


def _text(record: Mapping[str, object], names: Sequence[str]) -> str:
    return next((value for name in names if isinstance(value := record.get(name), str)), "")


def task_ids(given: Iterable[str], source: str = "--task") -> tuple[str, ...]:
    """Return the ids of tasks that an option names, without repetitions.

    Args:
        given: The values of the option; each may be several ids, separated by commas.
        source: The option, for the error.

    Raises:
        UsageError: One of them is not the id of a task.
    """
    found = dict.fromkeys(id.strip() for value in given for id in value.split(","))
    for id in found:
        try:
            check_task_id(id)
        except ValueError as error:
            raise UsageError(f"{source}: {error}") from error
    return tuple(found)


class TaskChoice:
    """Accepts the traces of some tasks, and remembers which tasks it has seen.

    Args:
        ids: The ids of the tasks; if it is empty, every trace is accepted.
    """

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self.ids = ids
        self._seen: dict[str, None] = {}

    def accepts(self, trace: RecordedTrace) -> bool:
        """Return whether a trace is one of the tasks.

        Args:
            trace: A trace that was found.
        """
        if not self.ids:
            return True
        record = trace.record
        if not isinstance(record, StoredRecord) or record.converter != "execution_trace":
            return False
        task = trace.place.partition("/")[0]  # the place of a logged trace is TASK/TRACE_ID
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
