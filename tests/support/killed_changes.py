"""Kills a process right before one of the changes that it makes to files."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# Imports once what the code needs, and forks a process for each line of its input: the environment, and the code.
_FORKS = """
import json, os, sys, traceback

for line in sys.stdin:
    environ, code = json.loads(line)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ.clear()
            os.environ.update(environ)
            exec(code, {})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

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
    """Run code in a process of its own, and kill it.

    Args:
        number: Before which of its changes, from 1.
        folder: Where it writes.
        code: The code; what it imports is imported first.

    Returns:
        Whether it came so far; if not, it has done all that it had to do.
    """
    imports, _, rest = code.partition("\n\n")
    forks = _forks(imports)
    assert forks.stdin is not None and forks.stdout is not None
    watched = f"{imports}\n{_WATCH.format(number=number, folder=str(folder))}\n{rest}"
    forks.stdin.write(json.dumps([dict(os.environ), watched]) + "\n")
    forks.stdin.flush()
    status = int(forks.stdout.readline())
    assert status in (0, -signal.SIGKILL)
    return status != 0


@functools.cache
def _forks(imports: str) -> subprocess.Popen[str]:
    """A process with these imports, which ends with this one: then its input does."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-c", f"{imports}\n{_FORKS}"],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
