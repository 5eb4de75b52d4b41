"""What was done in earlier nights: the sessions that need not be read again, and a record of each night."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ace.integrations import append_line, replace_file
from ace_sleep.sessions import Session, SessionFile

__all__ = ["Ledger", "NightRecord", "last_nights"]


@dataclass
class NightRecord:
    """What one night did."""

    at: str
    """When it began: ISO 8601, UTC."""
    sessions: int = 0
    candidates: int = 0
    proven: int = 0
    staged: int = 0
    unproven: int = 0
    """How many lessons were proposed that nothing proves."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why candidates were not proven, each with its number."""
    calls: int = 0
    """The calls of the model."""
    agent_runs: int = 0
    """The runs of the agent that lessons were tried with."""
    cost: float = 0.0
    """What both cost, in US dollars."""
    error: str = ""
    """Why it ended early; empty if it did not."""


class Ledger:
    """The sessions that are done.

    Args:
        folder: The folder of what `ace sleep` remembers.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sessions.json"
        self._nights = folder / "nights.jsonl"
        found: dict[str, dict[str, str]] = {}
        if self._path.exists():
            found = json.loads(self._path.read_text(encoding="utf-8"))
        self._files = dict(found.get("files", {}))
        self._sessions = dict(found.get("sessions", {}))

    def has_file(self, file: SessionFile) -> bool:
        """Return whether all sessions of a file are done, and it was not changed since."""
        return self._files.get(str(file.path)) == file.mark

    def has_session(self, session: Session) -> bool:
        """Return whether a session is done, and was not continued since."""
        return self._sessions.get(session.key) == session.mark

    def note(self, files: Mapping[str, str], sessions: Mapping[str, str]) -> None:
        """Remember that files and sessions are done. Those of files that were deleted are forgotten.

        Args:
            files: The marks of files by their paths, from before they were read.
            sessions: The marks of sessions by their keys.
        """
        self._files = {path: mark for path, mark in {**self._files, **files}.items() if Path(path).exists()}
        every = {**self._sessions, **sessions}
        self._sessions = {key: mark for key, mark in every.items() if Path(key.partition("#")[0]).exists()}
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = {"files": self._files, "sessions": self._sessions}
        replace_file(self._path, json.dumps(data, indent=0).encode("utf-8", "surrogateescape"))

    def note_night(self, record: NightRecord) -> None:
        """Remember a night."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        append_line(self._nights, json.dumps(asdict(record)))


def last_nights(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the nights, oldest first.

    Args:
        folder: The folder of what `ace sleep` remembers.
    """
    path = folder / "nights.jsonl"
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)
