"""Which processes have come from a process."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["descendants"]


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have, as far as they are alive.

    Args:
        pid: The process.
    """
    parents = _parents()
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known and child not in found]
    return found[1:]


def _parents() -> dict[int, int]:
    """Return the parent of each process of the system."""
    if Path("/proc/self/stat").exists():
        return _parents_in_proc()
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, encoding="utf-8", check=True)
    pairs = (line.split() for line in listed.stdout.splitlines())
    return {int(pid): int(parent) for pid, parent in pairs}


def _parents_in_proc() -> dict[int, int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        # The name stands in parentheses and may hold anything, blanks and parentheses too.
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return parents
