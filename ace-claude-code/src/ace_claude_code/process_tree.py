"""Finds the descendants of a process."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

__all__ = ["ProcessName", "descendants", "is_alive", "processes_with"]


class ProcessName(NamedTuple):
    """A unique identification of a process; a process id alone may be reused."""

    pid: int
    started: str


def descendants(pid: int) -> list[ProcessName]:
    """Return all running descendants of a process.

    Args:
        pid: The id of the process.
    """
    processes = _processes()
    found = [pid]
    for known in found:
        found += [child for child, (parent, _) in processes.items() if parent == known and child not in found]
    return [ProcessName(child, processes[child][1]) for child in found[1:]]


def processes_with(variable: str, value: str) -> list[ProcessName]:
    """Return the processes with a value in their environment, even if they have detached themselves.

    This only works on Linux; on other systems, the result is empty.

    Args:
        variable: The name of an environment variable.
        value: Its value, which no other process has.
    """
    wanted = f"{variable}={value}".encode()
    return [ProcessName(pid, started) for pid, (_, started) in _processes().items() if wanted in _environment_of(pid)]


def is_alive(process: ProcessName) -> bool:
    """Return whether a process is still running."""
    return _processes().get(process.pid, (0, ""))[1] == process.started


def _processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the start time of each process of the system."""
    if Path("/proc/self/stat").exists():
        return _processes_in_proc()
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,lstart="], capture_output=True, encoding="utf-8", check=True)
    rows = (line.split(maxsplit=2) for line in listed.stdout.splitlines())
    return {int(pid): (int(parent), started) for pid, parent, started in rows}


def _environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, belongs to another user, or the system does not provide this
        return []


def _processes_in_proc() -> dict[int, tuple[int, str]]:
    processes = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        # The name is in parentheses and may contain any characters, including spaces and parentheses.
        fields = stat.rpartition(")")[2].split()
        processes[int(folder.name)] = (int(fields[1]), fields[19])
    return processes
