"""The example learns from its two sessions."""

import subprocess
import sys

from tests.workspace.project import ROOT


def test_the_example_learns_from_both_sessions() -> None:
    command = [sys.executable, "-m", "examples.learn_from_claude_code"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8")
    told, _, learned = done.stdout.partition("\nWhat was learned:\n")
    assert "Publish the package -> I could not finish" in told
    assert "Bash failed at 5: Exit code 1 ... FAILED (errors=1)" in told
    assert learned == (
        "  [sessions-00001] active: Ask for the permission before you plan with a tool that may be denied.\n"
        "  [sessions-00002] pending: Run the tests before the first change, and again after the last one.\n"
    )
