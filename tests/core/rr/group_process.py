"""A process whose children run `ace learn --group` on the traces of a folder, and which a test can kill."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from ace.cli import main as ace
from tests.core.runners.learner_process import main

SIZE = 3
"""Traces in a group."""


def learn(path: str, api_base: str) -> None:
    """Learn from the files in the folder `runs` beside the store in groups, or resume that run."""
    store = Path(path)
    os.chdir(store.parent)
    model = ["--model", "openai/scripted", "--api-base", api_base, "--max-tokens", "500"]
    groups = ["--reflector", "recursive", "--max-iterations", "6", "--group", str(SIZE)]
    run = ["--skillbook", store.name, "--workers", "1", "--lag", "0", "--no-prove", "--no-merge", "--resume", "--yes"]
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for the answers to the test
        assert ace(["learn", "runs", *model, *groups, *run]) == 0


if __name__ == "__main__":
    main(learn)
