"""The queue between the hook, which must be quick, and the learner, which takes its time."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ace.durable_file import file_lock, replace_file
from ace.json_fields import number_in, text_in
from ace_claude_code.sessions.home import make_state_folder

__all__ = [
    "LEARNER_AT_WORK",
    "Job",
    "add_job",
    "failed_jobs",
    "learner_lock",
    "note_failure",
    "remove_job",
    "waiting_jobs",
]

LEARNER_AT_WORK = "a learner is at work, and is waited for"
"""What a user is told who has to wait for the lock."""
_MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class Job:
    """A session that is to be learned from."""

    transcript: str
    """Its file."""
    session_id: str = ""
    attempts: int = 0
    """How often it was tried."""
    error: str = ""
    """What went wrong the last time, with the session."""
    path: str = ""
    """The file of the job itself."""


def add_job(state: Path, job: Job) -> Path:
    """Put a job at the end of the queue.

    Args:
        state: The folder of the state.
        job: The job.

    Returns:
        Its file.
    """
    path = state / "queue" / f"{time.time_ns():020}-{os.getpid()}.json"
    replace_file(path, json.dumps(asdict(replace(job, path=""))).encode())
    return path


def waiting_jobs(state: Path) -> list[Job]:
    """Return the jobs that can be tried, the oldest first.

    Args:
        state: The folder of the state.
    """
    return [job for job in _jobs(state) if job.attempts < _MOST_ATTEMPTS]


def failed_jobs(state: Path) -> list[Job]:
    """Return the jobs that were tried in vain too often; `ace claude-code learn` tries them once more.

    Args:
        state: The folder of the state.
    """
    return [job for job in _jobs(state) if job.attempts >= _MOST_ATTEMPTS]


def remove_job(job: Job) -> None:
    """Take a job out of the queue.

    Args:
        job: The job.
    """
    Path(job.path).unlink(missing_ok=True)


def note_failure(job: Job, error: str, *, is_outage: bool = False) -> None:
    """Keep a job in the queue, with what went wrong.

    Args:
        job: The job.
        error: What went wrong.
        is_outage: Whether the session has no part in it, as when the model cannot be reached; then the attempt does
            not count.
    """
    if Path(job.path).exists():  # else the plugin was uninstalled meanwhile
        changed = replace(job, attempts=job.attempts + (not is_outage), error=error, path="")
        replace_file(job.path, json.dumps(asdict(changed)).encode())


@contextlib.contextmanager
def learner_lock(state: Path, *, wait: bool = False, on_wait: Callable[[], None] | None = None) -> Iterator[bool]:
    """Hold the lock of the learner: only one learns at a time. It ends with the process, however that ends.

    Args:
        state: The folder of the state.
        wait: Whether to wait for it.
        on_wait: Called before a wait begins.

    Yields:
        Whether it is held.
    """
    make_state_folder(state)
    with file_lock(state / "learner.lock", wait=wait, on_wait=on_wait) as is_held:
        yield is_held


def _jobs(state: Path) -> Iterator[Job]:
    for path in sorted((state / "queue").glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:  # another process has just finished it
            continue
        except ValueError:
            data = {}
        fields = data if isinstance(data, dict) else {}
        yield Job(
            transcript=text_in(fields, "transcript"),
            session_id=text_in(fields, "session_id"),
            attempts=int(number_in(fields, "attempts") or 0),
            error=text_in(fields, "error"),
            path=str(path),
        )
