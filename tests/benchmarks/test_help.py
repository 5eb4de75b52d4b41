"""Every benchmark explains itself with `--help`, and rejects options that it does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if path.stem not in {"__main__", "child"}  # `child` runs one case for the command itself
    and "\nif __name__ ==" in path.read_text(encoding="utf-8")
)
# All in one process, which imports what they share once.
RUN_ALL = """
import contextlib, io, json, runpy, sys
option, *names = sys.argv[1:]
printed = {}
for name in names:
    sys.argv[1:] = [option]
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code
    printed[name] = (code, out.getvalue(), err.getvalue())
print(json.dumps(printed))
"""


def run(names: list[str], option: str) -> dict[str, tuple[object, str, str]]:
    command = [sys.executable, "-c", RUN_ALL, option, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, tuple[object, str, str]] = json.loads(done.stdout)
    return found


def test_help_describes_each_benchmark_without_running_it() -> None:
    for name, (code, out, err) in run(
        ["benchmarks", *(f"benchmarks.{command}" for command in COMMANDS)], "--help"
    ).items():
        assert code in (0, None), (name, err)
        usage, _, description = out.partition("\n\n")
        assert usage.startswith(f"usage: python -m {name} [-h]"), out
        assert not description.startswith("options:"), f"{name} has no description"


def test_an_unknown_option_is_rejected() -> None:
    for name, (code, _, err) in run([f"benchmarks.{command}" for command in COMMANDS], "--unknown").items():
        assert code == 2, name
        assert "unrecognized arguments: --unknown" in err, name


def test_the_separate_benchmarks_are_found() -> None:
    assert {"skillbook", "learning", "transcripts", "comparison"} <= set(COMMANDS)
