"""The queue between the hook, which must be fast, and the learner, which is slow."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ace.atomic_file import file_lock, replace_file
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

LEARNER_AT_WORK = "waiting for another learner to finish"
"""The message for a user who must wait for the lock."""
_MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class Job:
    """A session in the queue."""

    transcript: str
    """The file of the session."""
    session_id: str = ""
    attempts: int = 0
    """The number of failed attempts."""
    error: str = ""
    """The error of the last attempt."""
    path: str = ""
    """The file of the job itself."""


def add_job(state: Path, job: Job) -> Path:
    """Add a job to the end of the queue.

    Args:
        state: The folder of the state.
        job: The job to add.

    Returns:
        The file of the job.
    """
    path = state / "queue" / f"{time.time_ns():020}-{os.getpid()}.json"
    replace_file(path, json.dumps(asdict(replace(job, path=""))).encode())
    return path


def waiting_jobs(state: Path) -> list[Job]:
    """Return the jobs that can be tried, oldest first.

    Args:
        state: The folder of the state.
    """
    return [job for job in _jobs(state) if job.attempts < _MOST_ATTEMPTS]


def failed_jobs(state: Path) -> list[Job]:
    """Return the jobs that failed too often; only `ace claude-code learn` tries them again.

    Args:
        state: The folder of the state.
    """
    return [job for job in _jobs(state) if job.attempts >= _MOST_ATTEMPTS]


def remove_job(job: Job) -> None:
    """Remove a job from the queue."""
    Path(job.path).unlink(missing_ok=True)


def note_failure(job: Job, error: str, *, is_outage: bool = False) -> None:
    """Record a failed attempt of a job, which stays in the queue.

    Args:
        job: The failed job.
        error: The error of the attempt.
        is_outage: Whether the session did not cause the error, for example if the model could not be reached. The
            attempt is not counted then.
    """
    if Path(job.path).exists():  # otherwise the plugin was uninstalled in the meantime
        changed = replace(job, attempts=job.attempts + (not is_outage), error=error, path="")
        replace_file(job.path, json.dumps(asdict(changed)).encode())


@contextlib.contextmanager
def learner_lock(state: Path, *, wait: bool = False, on_wait: Callable[[], None] | None = None) -> Iterator[bool]:
    """Hold the lock of the learner, so that only one process learns at a time. The end of the process releases it.

    Args:
        state: The folder of the state.
        wait: Whether to wait for the lock.
        on_wait: Called before waiting.

    Yields:
        Whether the lock is held.
    """
    make_state_folder(state)
    with file_lock(state / "learner.lock", wait=wait, on_wait=on_wait) as is_held:
        yield is_held


def _jobs(state: Path) -> Iterator[Job]:
    for path in sorted((state / "queue").glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:  # another process has just removed it
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
