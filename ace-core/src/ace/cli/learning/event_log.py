"""The log of a command that learns: one JSON line for each event, in files of limited size."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, final

from ace._internal.atomic_file import open_private
from ace.protocols.observers import Event, SkillChange
from ace.redaction import Redactor

__all__ = ["EventLog", "older_logs"]

_NEVER_LOGGED: Final = frozenset({"prompt", "answer"})
_QUOTING: Final = frozenset({"before", "after", "reason", "error", "message"})
"""Fields whose texts can quote a trace."""
_KEPT_FILES: Final = 3


@final
class EventLog:
    """Writes events to a file, one JSON object in each line; it is an observer.

    Secrets and personal data are redacted. Prompts and answers of models are not written. When the file is full, it is
    renamed to `NAME.1`, an earlier `NAME.1` to `NAME.2`, and so on; three older files are kept.

    Args:
        path: The file; lines are added to one that exists.
        redactor: Redacts secrets and personal data.
        ids_only: Whether texts are omitted that can quote a trace, such as the messages of errors.
        max_bytes: The size that a file does not exceed, unless a single line does.
        clock: Returns the time of an event.
    """

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        *,
        ids_only: bool = False,
        max_bytes: int = 10_000_000,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.path = path
        self._redactor = redactor
        self._ids_only = ids_only
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Write an event.

        Raises:
            OSError: The file cannot be written.
        """
        entry = {"time": self._clock().isoformat(), "event": type(event).__name__, **self._values(event)}
        line = f"{json.dumps(entry)}\n".encode("ascii")
        with self._lock:
            self._make_room(len(line))
            with open(self.path, "ab", opener=open_private) as file:
                file.write(line)

    def _values(self, event: Event | SkillChange) -> dict[str, object]:
        names = [field.name for field in fields(event) if field.name not in _NEVER_LOGGED]
        return {name: self._plain(name, getattr(event, name)) for name in names}

    def _plain(self, name: str, value: object) -> object:
        if isinstance(value, BaseException):
            return {"type": type(value).__name__, "message": self._plain("message", str(value))}
        if isinstance(value, tuple):
            return [self._values(item) for item in value]
        if isinstance(value, str):
            if self._ids_only and name in _QUOTING:
                return ""
            return self._redactor.redact_name(value) if name == "trace_id" else self._redactor.redact(value)
        return dict(value) if isinstance(value, Mapping) else value

    def _make_room(self, size: int) -> None:
        """Rename the files if a line does not fit into the newest one any more. A device or `/dev/stderr` is none."""
        if self.path.is_symlink() or not self.path.is_file() or self.path.stat().st_size + size <= self._max_bytes:
            return
        files = [self.path, *older_logs(self.path)]
        for newer, older in reversed(list(pairwise(files))):
            if newer.exists():
                newer.replace(older)


def older_logs(path: Path) -> list[Path]:
    """Return the files to which a log is renamed, the most recent one first. They may not exist.

    Args:
        path: The file of the log.
    """
    return [path.with_name(f"{path.name}.{number}") for number in range(1, _KEPT_FILES + 1)]
