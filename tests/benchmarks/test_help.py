"""Every benchmark explains itself with `--help`, and rejects options that it does not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if path.stem not in {"__main__", "child"}  # `child` runs one case for the command itself
    and "\nif __name__ ==" in path.read_text(encoding="utf-8")
)


def run(name: str, option: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", name, option]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["benchmarks", *(f"benchmarks.{command}" for command in COMMANDS)])
def test_help_describes_a_benchmark_without_running_it(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    usage, _, description = done.stdout.partition("\n\n")
    assert usage.startswith(f"usage: python -m {name} [-h]"), done.stdout
    assert not description.startswith("options:"), "no description"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_rejected(name: str) -> None:
    done = run(f"benchmarks.{name}", "--unknown")
    assert done.returncode == 2
    assert "unrecognized arguments: --unknown" in done.stderr


def test_the_separate_benchmarks_are_found() -> None:
    assert {"skillbook", "learning", "transcripts", "comparison"} <= set(COMMANDS)
