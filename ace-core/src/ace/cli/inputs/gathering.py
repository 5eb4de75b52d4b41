"""Gathers the traces of all inputs: which there are, and what cannot be read."""

from __future__ import annotations

import errno
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from ace.cli.errors import UsageError
from ace.cli.inputs.content import HEAD_SIZE, foreign_kind
from ace.cli.inputs.file_search import STANDARD_INPUT, check_paths, find_files
from ace.cli.inputs.problems import LARGEST_INPUT, InputProblem, reason_of, too_large
from ace.cli.inputs.splitting import Found, split_file
from ace.cli.signals import on_forced_exit
from ace.protocols.trace_converters import AmbiguousTraceError, find_trace_converter
from ace.runners import RecordedTrace

__all__ = ["GatheredTraces", "gather_traces"]

_CHUNK: Final = 1024 * 1024
_LONGEST_WAIT: Final = 10.0
"""Seconds in which a program has to begin to write into a pipe that the user named."""
_WAIT_BETWEEN: Final = 0.02


@dataclass
class GatheredTraces:
    """The traces of all inputs, in order; use it in a `with` block. The records stay in their files until read."""

    traces: list[RecordedTrace] = field(default_factory=list)
    """What can be learned from."""
    problems: list[InputProblem] = field(default_factory=list)
    """What cannot be read."""
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
) -> GatheredTraces:
    """Find the records of all inputs.

    Args:
        paths: Files, folders, globs, and `-` for standard input.
        limit: The most traces to take.
        shuffle: A seed; the traces are taken in a random order that it determines.
        left_out: Resolved paths that are skipped inside folders.
        max_bytes: The size of the largest file or stream that is read.

    Raises:
        UsageError: A path does not exist, or nothing at all can be learned from.
    """
    check_paths(paths)
    gathered = GatheredTraces()
    try:
        for found in _all_found(paths, left_out, gathered._copies, max_bytes):
            if isinstance(found, InputProblem):
                gathered.problems.append(found)
                continue
            gathered.traces.append(found)
            if limit is not None and shuffle is None and len(gathered.traces) >= limit:
                break
        if not gathered.traces:
            raise UsageError(_nothing_found(paths, gathered.problems))
    except BaseException:
        gathered._copies.close()
        raise
    if shuffle is not None:
        random.Random(shuffle).shuffle(gathered.traces)
        gathered.traces = gathered.traces[:limit]
    return gathered


def _all_found(paths: Sequence[str], left_out: Set[Path], copies: ExitStack, max_bytes: int) -> Iterator[Found]:
    for path in find_files(paths, left_out):
        if isinstance(path, InputProblem):
            yield path
        elif path == STANDARD_INPUT:
            yield from _split_stream(sys.stdin.buffer, "stdin", copies, max_bytes)
        elif Path(path).is_file():
            yield from split_file(path, path, max_bytes)
        else:
            yield from _split_pipe(path, copies, max_bytes)


def _split_pipe(path: str, copies: ExitStack, max_bytes: int) -> Iterator[Found]:
    """Split what comes through a pipe, such as the shell makes of <(command), or from a terminal."""
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
    """Wait until a program writes into a pipe; return what it has written, if anything.

    Raises:
        OSError: None has done so within some seconds.
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
    """Split what a stream holds. It can be read once only, so a temporary file holds it until the end."""
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
    given = ", ".join(repr(path) for path in paths)
    what = "give files, folders or globs of JSON, JSONL or text, or - for standard input"
    if not problems:
        return f"there is no trace in {given}; {what}"
    first = f"{problems[0].place}: {problems[0].reason}"
    more = "" if len(problems) == 1 else f" (and {len(problems) - 1} more)"
    return f"nothing in {given} can be learned from; {first}{more}; {what}"
