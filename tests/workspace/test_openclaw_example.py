"""The example learns from its two sessions, once."""

import subprocess
import sys

from tests.workspace.project import ROOT


def test_the_example_learns_from_both_sessions() -> None:
    command = [sys.executable, "-m", "examples.learn_from_openclaw"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8")
    told, _, learned = done.stdout.partition("\n3 turns taught:\n")
    assert "The user's next message was: Too long. In one sentence, please." in told
    assert learned == (
        "  [claws-00001] pending: Guard a division against an empty list.\n"
        "  [claws-00002] pending: Answer in one sentence.\n"
        "  [claws-00003] active: Check the request when the provider refuses it; the same request fails again.\n"
        "The second time, 3 turns were known already.\n"
    )
