"""The sessions of coding agents on this machine, found where the readers of logs say that they are."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ace.logs import LogReader, Problem, Run, read_runs, readers

__all__ = ["Session", "SessionFile", "find_files", "read_sessions"]


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file, or a folder that is one log, with sessions."""

    path: Path
    reader: LogReader

    @property
    def mark(self) -> str:
        """Changes when the file changes."""
        found = self.path.stat()
        return f"{found.st_size}-{found.st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a coding agent."""

    run: Run
    file: Path
    agent: str
    """The title of the reader, without what it says about formats: `Claude Code`."""

    @property
    def key(self) -> str:
        """Identifies the session among all."""
        return f"{self.file}#{self.run.id or self.run.place}"

    @property
    def mark(self) -> str:
        """Changes when the session is continued."""
        return f"{len(self.run.steps)}-{self.run.ended.isoformat() if self.run.ended else ''}"


def find_files(agents: Sequence[str] = (), since: datetime | None = None) -> Iterator[SessionFile]:
    """Yield the files in the default places of coding agents, those of one reader after the other.

    Args:
        agents: The names of the readers to ask, as `ace inspect` prints them; all by default.
        since: Files that were not changed since then are skipped.

    Raises:
        ValueError: No reader with a place of its own has a name.
    """
    asked = {reader.name: reader for reader in readers() if any(map(_is_absolute, map(_expanded, reader.places)))}
    names = [agent.replace("-", "_") if agent not in asked else agent for agent in agents]
    if unknown := [name for name in names if name not in asked]:
        raise ValueError(f"no agent is called {unknown[0]!r}; there are {', '.join(sorted(asked))}")
    seen: set[str] = set()
    for reader in (asked[name] for name in names or asked):
        for path in _paths(reader):
            real = os.path.realpath(path)
            if real in seen or any(fnmatch.fnmatchcase(path, f"*/{pattern}") for pattern in reader.side_files):
                continue
            seen.add(real)
            if since is None or os.stat(path).st_mtime >= since.timestamp():
                yield SessionFile(Path(path), reader)


def _paths(reader: LogReader) -> Iterator[str]:
    for pattern in map(_expanded, reader.places):
        if _is_absolute(pattern):
            yield from sorted(filter(os.path.exists, glob.iglob(pattern, recursive=True)))


def _expanded(place: str) -> str:
    return os.path.expandvars(os.path.expanduser(place))


def _is_absolute(pattern: str) -> bool:
    return os.path.isabs(pattern) and "$" not in pattern


def read_sessions(
    files: Iterable[SessionFile], on_problem: Callable[[Problem], None], since: datetime | None = None
) -> Iterator[Session]:
    """Yield the sessions in files.

    Args:
        files: Where sessions may be.
        on_problem: Called with what cannot be read.
        since: Sessions that ended before are skipped.
    """
    for file in files:
        for found in read_runs(file.path, format=file.reader.name):
            if isinstance(found, Problem):
                if found.kind == "loss":
                    on_problem(found)
            elif since is None or found.ended is None or found.ended >= since:
                yield Session(found, file.path, _title(file.reader))


def _title(reader: LogReader) -> str:
    words = reader.title.split()
    kept = words[: words.index("sessions")] if "sessions" in words else words
    return " ".join(kept) or reader.title
