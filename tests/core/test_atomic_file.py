"""The lock for long work ends with the process that holds it, however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ace._internal.atomic_file import file_lock

HOLD = """
import sys, time
from ace._internal.atomic_file import file_lock
with file_lock(sys.argv[1]) as is_held:
    print(is_held, flush=True)
    time.sleep(600)
"""


def test_a_lock_is_waited_for_until_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "learner.lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with file_lock(path, wait=False) as is_held:
            assert not is_held
        told: list[str] = []

        def kill() -> None:
            told.append("I wait.")
            holder.kill()

        with file_lock(path, on_wait=kill) as is_held:
            assert (is_held, told) == (True, ["I wait."])
    with file_lock(path, wait=False) as is_held:
        assert is_held
