"""Kills a process right before one of the changes that it makes to files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

# Python tells of each file that is about to be opened, renamed or removed.
_WATCH = """
import os, signal, sys

def look(event, arguments, left=[{number}]):
    if event == "open":
        changes = arguments[2] & (os.O_WRONLY | os.O_RDWR) and str(arguments[0]).startswith({folder!r})
    else:
        changes = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
    if changes:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(look)
"""


def killed_before_change(number: int, folder: Path, code: str) -> bool:
    """Run code in an interpreter of its own, and kill it.

    Args:
        number: Before which of its changes, from 1.
        folder: Where it writes.
        code: The code; what it imports is imported first.

    Returns:
        Whether it came so far; if not, it has done all that it had to do.
    """
    imports, _, rest = code.partition("\n\n")
    watched = f"{imports}\n{_WATCH.format(number=number, folder=str(folder))}\n{rest}"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", watched], env=environ, check=False)
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0
