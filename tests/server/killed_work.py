"""A process that does work of the service in children of its own, and kills them at a line of the code.

It imports what they need once, so that a child starts at once. Each line of its input is a JSON object: the work, the
data folder, and the number of lines after which the child kills itself, or null. It answers with the number of lines
that were run, 0 after a kill.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from ace import Skillbook
from ace_server.database import Database, now
from ace_server.retention import run_deletions
from ace_server.rotation import open_seal, rotate
from ace_server.settings import ServerSettings

Work = Literal["rotate", "delete"]

_COUNTED = tuple(f"{os.sep}{name}" for name in ("rotation.py", "retention.py", "seal.py", "audit.py", "atomic_file.py"))
"""The files in whose lines a child may be killed: each transaction and each change of a file is a line of them."""


class KilledWork:
    """The process.

    Args:
        process: The started process.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, work: Work, folder: Path, kill_at: int | None = None) -> int:
        """Do the work in a child, and return the number of lines that it ran; 0 if it was killed.

        Args:
            work: What to do.
            folder: The data folder.
            kill_at: The number of the line before which the child is killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([work, str(folder), kill_at]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def killed_work() -> Iterator[KilledWork]:
    """Run the process while the block runs."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "tests.server.killed_work"]
    process = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield KilledWork(process)
    finally:
        process.communicate()


def do_work(work: Work, folder: Path) -> None:
    """Replace the keys, or delete what was asked for.

    Args:
        work: What to do.
        folder: The data folder.
    """
    database = Database(folder / "server.db")
    if work == "rotate":
        rotate(database, open_seal(database, folder, environ={}))
    else:
        settings = ServerSettings(data=folder)
        run_deletions(database, settings, lambda name: Skillbook.open(folder / f"{name}.db"), at=now() + 3600)
    database.close()


def _child(work: Work, folder: Path, kill_at: int | None, writing: int) -> int:
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(_COUNTED):
            return None
        if event == "line":
            lines += 1
            if lines == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    try:
        sys.settrace(count)
        do_work(work, folder)
        sys.settrace(None)
        os.write(writing, f"{lines}\n".encode())
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Start a child for each line."""
    for line in sys.stdin:
        work, folder, kill_at = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os._exit(_child(work, Path(folder), kill_at, writing))
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read().strip()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        expected = 0 if kill_at is None else -signal.SIGKILL
        print(said or "0" if status == expected else f"exit status {status}", flush=True)


if __name__ == "__main__":
    main()
