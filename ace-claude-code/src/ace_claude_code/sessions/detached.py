"""Starts the learner as a separate process, which outlives Claude Code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ace.atomic_file import create_private
from ace_claude_code.guard import LEARNING_VARIABLE

__all__ = ["start_learner"]

_LOG_SIZE = 1_000_000


def start_learner(state: Path) -> None:
    """Start the learner and return immediately. Its output is written to `learner.log`.

    Args:
        state: The folder of the state.
    """
    log = state / "learner.log"
    mode = "ab" if not log.exists() or log.stat().st_size < _LOG_SIZE else "wb"
    create_private(log)
    with log.open(mode) as file:
        subprocess.Popen(
            [sys.executable, "-E", "-P", "-m", "ace_claude_code.sessions.learner"],
            cwd=state,
            env={**os.environ, LEARNING_VARIABLE: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
