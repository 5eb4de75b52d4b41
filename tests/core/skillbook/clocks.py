"""Clocks and processes for the tests of the skillbook."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ace.skillbook


def ticking() -> Callable[[], datetime]:
    """Return a clock that goes one second on at each look, from a fixed start."""
    ticks = iter(range(10_000_000))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return lambda: start + timedelta(seconds=next(ticks))


def start_python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python process that can import ace."""
    source = str(Path(ace.skillbook.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_python(script: str, *arguments: str) -> str:
    """Run a Python process to its end and return what it printed."""
    process = start_python(script, *arguments)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output
