"""Runs code in an interpreter of its own, in which a framework cannot be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection

__all__ = ["run_without"]

_BLOCKING = """
import sys

class _Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked by ace.testing)", name=name)

sys.meta_path.insert(0, _Blocked())
"""


def run_without(
    modules: Collection[str], code: str, *arguments: str, hash_seed: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run code with the import path of this process.

    Args:
        modules: The top-level packages that cannot be imported.
        code: The code.
        *arguments: They are in `sys.argv[1:]`.
        hash_seed: The seed of the hashes of texts, on which the order in sets depends.
    """
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONIOENCODING": "utf-8",
    }
    return subprocess.run(
        [sys.executable, "-c", f"BLOCKED = {sorted(modules)!r}\n{_BLOCKING}\n{code}", *arguments],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def last_line(text: str) -> str:
    """Return the last line of what a process said; of a traceback, that is the error.

    Args:
        text: What it said.
    """
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
