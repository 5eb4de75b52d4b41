"""Runs `ace learn --task ID` in a separate process, so that it can be stopped when it takes too long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["learn_command", "learn_within"]

_GRACE: Final = 10.0
"""The time that a stopped process has to finish its step, in seconds, before it is killed. No skill is lost then."""


def learn_command(task_id: str) -> list[str]:
    """Return the command that learns from the attempts at an issue.

    Args:
        task_id: The id of the issue.
    """
    code = "import sys; from ace.cli import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", code, "learn", "--task", task_id, "--yes"]


def learn_within(task_id: str, folder: Path, seconds: float) -> int | None:
    """Learn from the attempts at an issue; the output goes to that of this process.

    Args:
        task_id: The id of the issue.
        folder: The folder in which the command is run.
        seconds: The time limit, in seconds.

    Returns:
        The exit code of the command; None if it took too long.
    """
    with subprocess.Popen(learn_command(task_id), cwd=folder, stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
    return None
