"""The names of runs: the same inputs give the same beginning, so that `--resume` finds the run."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ace.cli.console import note
from ace.cli.inputs import STANDARD_INPUT
from ace.runners import unfinished_runs

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["chosen_run"]


def chosen_run(
    command: str, paths: Sequence[str], options: Mapping[str, object], book: Skillbook, *, resume: bool
) -> tuple[str, bool]:
    """Return the name of the run, and whether an earlier command has begun it.

    Args:
        command: The name of the command.
        paths: Its inputs.
        options: What else makes it another run, such as the number of epochs.
        book: The skillbook, which knows the runs that are not finished.
        resume: Whether the user wants to continue such a run.
    """
    beginning = f"{command}-{_hash_of(paths, options)}-"
    if resume:
        begun = [each.run_id for each in unfinished_runs(book) if each.run_id.startswith(beginning)]
        if begun:
            return begun[-1], True
        note("ace: no run over these inputs has anything left to resume, so a new one begins")
    return f"{beginning}{uuid.uuid4().hex[:12]}", False


def _hash_of(paths: Sequence[str], options: Mapping[str, object]) -> str:
    places = [path if path == STANDARD_INPUT else str(Path(path).absolute()) for path in paths]
    return hashlib.sha256(json.dumps([places, options], sort_keys=True).encode("utf-8")).hexdigest()[:12]
