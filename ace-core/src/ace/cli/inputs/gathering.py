"""Gathers the traces of all inputs: which there are, and what cannot be read."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from ace.cli.errors import UsageError
from ace.cli.inputs.file_search import STANDARD_INPUT, check_paths, find_files
from ace.cli.inputs.problems import InputProblem
from ace.cli.inputs.splitting import Found, split_file
from ace.runners import RecordedTrace

__all__ = ["GatheredTraces", "gather_traces"]


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
    paths: Sequence[str], *, limit: int | None = None, shuffle: int | None = None, left_out: Set[Path] = frozenset()
) -> GatheredTraces:
    """Find the records of all inputs.

    Args:
        paths: Files, folders, globs, and `-` for standard input.
        limit: The most traces to take.
        shuffle: A seed; the traces are taken in a random order that it determines.
        left_out: Resolved paths that are passed over inside folders.

    Raises:
        UsageError: A path does not exist, or nothing at all can be learned from.
    """
    check_paths(paths)
    gathered = GatheredTraces()
    try:
        for found in _all_found(paths, left_out, gathered._copies):
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


def _all_found(paths: Sequence[str], left_out: Set[Path], copies: ExitStack) -> Iterator[Found]:
    for path in find_files(paths, left_out):
        if isinstance(path, InputProblem):
            yield path
        elif path == STANDARD_INPUT:
            yield from split_file(_copied(None, copies), "stdin")
        elif Path(path).is_file():
            yield from split_file(path, path)
        else:
            # A pipe, such as the shell makes of <(command), can be read once only.
            yield from split_file(_copied(path, copies), path)


def _copied(path: str | None, copies: ExitStack) -> str:
    """Copy a stream into a temporary file, which is deleted at the end."""
    target = copies.enter_context(tempfile.NamedTemporaryFile(prefix="ace-input-"))  # noqa: SIM115  # closed by `copies`
    if path is None:
        shutil.copyfileobj(sys.stdin.buffer, target)
    else:
        with Path(path).open("rb") as stream:
            shutil.copyfileobj(stream, target)
    target.flush()
    return target.name


def _nothing_found(paths: Sequence[str], problems: Sequence[InputProblem]) -> str:
    given = ", ".join(repr(path) for path in paths)
    what = "give files, folders or globs of JSON, JSONL or text, or - for standard input"
    if not problems:
        return f"there is no trace in {given}; {what}"
    first = f"{problems[0].place}: {problems[0].reason}"
    more = "" if len(problems) == 1 else f" (and {len(problems) - 1} more)"
    return f"nothing in {given} can be learned from; {first}{more}; {what}"
