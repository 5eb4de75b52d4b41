"""Small file systems that are full or read-only, mounted where no other process sees them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.requirement import missing

PREPARE = """
import json, os, sys
from pathlib import Path
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation

folder = Path(sys.argv[1])

def outcome(action):
    try:
        return action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def fill():
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            pass

def add(book, text):
    operations = [UpdateOperation("ADD", section="a", content=text)]
    return book.apply_update(UpdateBatch("", operations)).applied[0].skill_id
"""


def on_small_disk(folder: Path, script: str, *, megabytes: int = 2, for_several_users: bool = False) -> dict[str, Any]:
    """Run the script with a small file system at the folder, and return the JSON that it prints.

    With `for_several_users`, the script may start processes as other users, which only root can do.
    """
    if shutil.which("unshare") is None:
        missing("namespaces", "there is no unshare command")
    if for_several_users and os.getuid() != 0:
        missing("namespaces", "only root can run the processes of several users on a file system of the test")
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" || exit 77; exec "$@"'
    unshare = ["unshare", "-m" if for_several_users else "-Urm"]
    command = [*unshare, "sh", "-c", mount, str(folder), sys.executable, "-c", PREPARE + script, str(folder)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode == 77 or done.stderr.startswith("unshare: "):
        missing("namespaces", f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
