"""The sessions that have started and not ended: what is lost of them, a later session picks up.

Each has a file in the folder `open` of the state, from the hook at its start to the hook at its end. A file that is
still there although Claude Code does not run any more names a session that was lost. Two hooks may look at the same
time; then a session is queued twice, which is harmless, because each of its turns is learned from once.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ace.durable_file import append_line, replace_file
from ace.json_fields import list_in, number_in, text_in
from ace_claude_code.sessions.jobs import Job, add_job

__all__ = [
    "PRIVATE_VARIABLE",
    "OpenSession",
    "forget_open_session",
    "is_private_session",
    "note_open_session",
    "note_private_session",
    "note_shown_skills",
    "open_session",
    "queue_lost_sessions",
]

PRIVATE_VARIABLE = "ACE_PRIVATE"
"""The environment variable with which a session is started that nothing may be learned from."""
_PRIVATE_FILE = "private-sessions.txt"

_IDLE_SECONDS = 600.0
"""A session without new lines for this long is learned from, although it may continue; later turns follow."""
_KEPT_SECONDS = 7 * 86_400.0
"""After how long a session that was never stored is forgotten."""


@dataclass(frozen=True)
class OpenSession:
    """A session that has started."""

    transcript: str
    session_id: str
    process: int
    """The process of Claude Code; elsewhere than on POSIX, that of a shell."""
    seen_bytes: int = 0
    """How long its transcript was when it was queued; what is said afterwards is queued again."""
    shown_skill_ids: tuple[str, ...] = ()
    """The skills that it was shown since it started, was resumed or was compacted."""


def note_open_session(state: Path, session: OpenSession) -> None:
    """Note that a session has started or was resumed.

    Args:
        state: The folder of the state.
        session: The session.
    """
    replace_file(_path(state, session.session_id), json.dumps(asdict(session)).encode())


def open_session(state: Path, session_id: str) -> OpenSession | None:
    """Return the note of a session; None if it is not open.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    return _read(_path(state, session_id))


def note_shown_skills(state: Path, session_id: str, skill_ids: Sequence[str]) -> None:
    """Add skills to those that a session was shown. Only its own hooks call this, one after the other.

    Args:
        state: The folder of the state.
        session_id: The session.
        skill_ids: The skills.
    """
    session = open_session(state, session_id)
    if session is not None:  # else it is private, and nothing is noted of it
        note_open_session(state, replace(session, shown_skill_ids=(*session.shown_skill_ids, *skill_ids)))


def forget_open_session(state: Path, session_id: str) -> None:
    """Remove the note of a session, because it has ended.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    _path(state, session_id).unlink(missing_ok=True)


def queue_lost_sessions(state: Path, *, besides: str) -> None:
    """Put the sessions into the queue that were lost, or in which nothing was said for a long time.

    Args:
        state: The folder of the state.
        besides: The session that has called, which is not lost.
    """
    for path, session in _open_sessions(state):
        if session.session_id == besides:
            continue
        is_running = _is_running(session.process)
        try:
            found = Path(session.transcript).stat()
        except FileNotFoundError:  # nothing was said in it so far, or Claude Code has deleted it
            if not is_running or time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink(missing_ok=True)
            continue
        is_idle = time.time() - found.st_mtime > _IDLE_SECONDS
        if is_running and not is_idle:
            continue
        if found.st_size > session.seen_bytes:
            add_job(state, Job(transcript=session.transcript, session_id=session.session_id))
        if is_running:
            note_open_session(state, replace(session, seen_bytes=found.st_size))
        else:
            path.unlink(missing_ok=True)


def note_private_session(state: Path, session_id: str) -> None:
    """Note that nothing may ever be learned from a session.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    append_line(state / _PRIVATE_FILE, session_id)
    forget_open_session(state, session_id)


def is_private_session(state: Path, session_id: str) -> bool:
    """Tell whether a session was started as a private one.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    try:
        return session_id in (state / _PRIVATE_FILE).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:  # there was none so far
        return False


def _path(state: Path, session_id: str) -> Path:
    return state / "open" / f"{re.sub(r'[^A-Za-z0-9-]', '_', session_id)[:100]}.json"


def _open_sessions(state: Path) -> Iterator[tuple[Path, OpenSession]]:
    for path in sorted((state / "open").glob("*.json")):
        session = _read(path)
        if session is not None:
            yield path, session


def _read(path: Path) -> OpenSession | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # it has ended just now; or a crash has cut the file, which is replaced
        return None
    if not isinstance(data, dict):
        return None
    return OpenSession(
        transcript=text_in(data, "transcript"),
        session_id=text_in(data, "session_id"),
        process=int(number_in(data, "process") or 0),
        seen_bytes=int(number_in(data, "seen_bytes") or 0),
        shown_skill_ids=tuple(str(each) for each in list_in(data, "shown_skill_ids")),
    )


def _is_running(process: int) -> bool:
    if process <= 0 or os.name != "posix":  # elsewhere, asking would end the process; silence decides there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's, so it is another process with the same number
        return False
    return True
