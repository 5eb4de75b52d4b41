"""The names of runs: the same inputs give the same beginning, so that `--resume` finds the run."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ace.cli.console import note
from ace.cli.errors import UsageError
from ace.cli.inputs import STANDARD_INPUT
from ace.cli.wording import counted
from ace.runners import RunInUseError, UnfinishedRun, give_up, unfinished_runs
from ace.runners.run_record import is_in_use

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["ChosenRun", "chosen_run"]


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """The run of a command."""

    name: str
    """Its name in the store."""
    is_resumed: bool = False
    """Whether an earlier command has begun it."""
    done: int = 0
    """How many inputs the earlier command has dealt with, over all epochs."""
    given_up: int = 0
    """How many failed inputs were given up just now."""


def chosen_run(
    command: str,
    paths: Sequence[str],
    options: Mapping[str, object],
    book: Skillbook,
    *,
    resume: bool,
    gives_up: bool = False,
) -> ChosenRun:
    """Return the run that the user wants: a new one, or an unfinished one over the same inputs.

    Args:
        command: The name of the command.
        paths: Its inputs.
        options: What else makes it another run, such as the number of epochs.
        book: The skillbook, which knows the runs that are not finished.
        resume: Whether the user wants to continue such a run.
        gives_up: Whether what failed in such runs shall not be tried again.

    Raises:
        UsageError: There is nothing to give up, or another process is working on the run.
    """
    beginning = f"{command}-{_hash_of(paths, options)}-"
    new = f"{beginning}{uuid.uuid4().hex[:12]}"
    if not resume:
        return ChosenRun(new)
    in_use = [
        each.run_id for each in unfinished_runs(book) if _is_this(each, beginning) and is_in_use(book, each.run_id)
    ]
    if in_use:
        raise UsageError(str(RunInUseError(in_use[-1])))
    given_up = _given_up(beginning, book) if gives_up else 0
    begun = [each for each in unfinished_runs(book) if _is_this(each, beginning)]
    if begun:
        return ChosenRun(begun[-1].run_id, True, begun[-1].learned + given_up, given_up)
    if not gives_up:
        note("ace: no run over these inputs has anything left to resume, so a new one begins")
    return ChosenRun(new, given_up=given_up)


def _is_this(run: UnfinishedRun, beginning: str) -> bool:
    return run.run_id.startswith(beginning)


def _given_up(beginning: str, book: Skillbook) -> int:
    """Give up what failed in the unfinished runs over the same inputs, and return how many inputs that were."""
    failed = [each.run_id for each in unfinished_runs(book) if _is_this(each, beginning) and each.failed]
    if not failed:
        raise UsageError("there is nothing to give up: no unfinished run over these inputs has failures")
    given_up = sum(give_up(book, run_id) for run_id in failed)
    note(f"ace: gave up {counted(given_up, 'input')} that failed; --again learns from them nevertheless")
    return given_up


def _hash_of(paths: Sequence[str], options: Mapping[str, object]) -> str:
    places = [path if path == STANDARD_INPUT else str(Path(path).absolute()) for path in paths]
    return hashlib.sha256(json.dumps([places, options], sort_keys=True).encode("utf-8")).hexdigest()[:12]
