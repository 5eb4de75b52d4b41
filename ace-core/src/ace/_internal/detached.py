"""Learning in a separate process that outlives the one that started it: a job queue, and its learner.

A hook of another program must return immediately, and may be killed together with its child processes. It therefore
only adds a job to a `JobQueue`, and starts a learner in a new session. The learner holds the lock of the queue, tries
each job once, and exits. It reads the queue again before it exits, so a process that adds a job in the meantime can
rely on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace._internal.atomic_file import create_private, file_lock, replace_file
from ace._internal.json_fields import number_in, text_in

__all__ = ["LEARNER_AT_WORK", "LEARNING_VARIABLE", "Job", "JobQueue", "MadeFolders", "remove_empty_folders"]

LEARNER_AT_WORK: Final = "waiting for another learner to finish"
"""The message for a user who must wait for the lock of a queue."""
LEARNING_VARIABLE: Final = "ACE_LEARNING"
"""The environment variable that is set in a learner, so that hooks which it triggers do not start another one."""
_MOST_ATTEMPTS: Final = 3
_LOG_SIZE: Final = 1_000_000
"""In bytes. A longer log is overwritten."""
_OWN_FIELDS: Final = frozenset({"attempts", "error", "path"})


@dataclass(frozen=True)
class Job:
    """A job in a queue.

    Example:
        >>> Job({"task_id": "bd-42"}).field("task_id")
        'bd-42'
    """

    fields: Mapping[str, str]
    """What to learn from; the integration defines the names."""
    attempts: int = 0
    """The number of failed attempts."""
    error: str = ""
    """The error of the last attempt."""
    path: str = ""
    """The file of the job; empty if it is not in a queue."""

    def field(self, name: str) -> str:
        """Return the value of a field, or an empty text if the job does not have it.

        Args:
            name: The name of the field.
        """
        return self.fields.get(name, "")


class JobQueue:
    """The queue between a hook, which must be fast, and a learner, which is slow.

    Several processes may use it at the same time. Each job is a file that is written atomically.

    Args:
        folder: The folder of the queue, which contains `queue/`, `learner.lock` and `learner.log`. It is created when
            needed, accessible only to the user.

    Example:
        >>> import tempfile
        >>> queue = JobQueue(Path(tempfile.mkdtemp()) / "state")
        >>> _ = queue.add({"task_id": "bd-1"})
        >>> queue.work_off(lambda job: queue.remove(job) is None)
        >>> queue.waiting()
        []
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder: Final = Path(folder)
        """The folder of the queue."""

    @property
    def log(self) -> Path:
        """The file that contains the errors of learners started by `start_learner`."""
        return self.folder / "learner.log"

    def make_folder(self) -> None:
        """Create the folder of the queue, accessible only to the user, if it does not exist."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def add(self, fields: Mapping[str, str]) -> Path:
        """Add a job to the end of the queue.

        Args:
            fields: What to learn from. The names `attempts`, `error` and `path` are reserved.

        Returns:
            The file of the job.

        Raises:
            ValueError: A field has a reserved name.
            OSError: The job cannot be written.
        """
        if taken := _OWN_FIELDS & fields.keys():
            raise ValueError(f"a job cannot have a field {min(taken)!r}: this name is reserved")
        self.make_folder()
        path = self.folder / "queue" / f"{time.time_ns():020}-{os.getpid()}.json"
        _write(path, Job(fields))
        return path

    def waiting(self) -> list[Job]:
        """Return the jobs that a learner will try, oldest first."""
        return [job for job in self._jobs() if job.attempts < _MOST_ATTEMPTS]

    def failed(self) -> list[Job]:
        """Return the jobs that failed three times, which a learner does not try again, oldest first."""
        return [job for job in self._jobs() if job.attempts >= _MOST_ATTEMPTS]

    def remove(self, job: Job) -> None:
        """Remove a job. It is not an error if it was already removed.

        Args:
            job: A job from this queue.
        """
        Path(job.path).unlink(missing_ok=True)

    def note_failure(self, job: Job, error: str, *, is_outage: bool = False) -> None:
        """Record a failed attempt of a job, which stays in the queue.

        Args:
            job: The failed job.
            error: The error of the attempt.
            is_outage: Whether the error was not caused by the job, for example because the model could not be reached.
                Such an attempt is not counted.
        """
        if Path(job.path).exists():  # otherwise the integration was uninstalled in the meantime
            _write(Path(job.path), Job(job.fields, job.attempts + (not is_outage), error))

    @contextlib.contextmanager
    def lock(self, *, wait: bool = False, on_wait: Callable[[], None] | None = None) -> Iterator[bool]:
        """Hold the lock of the queue, so that only one process learns at a time. It is released if the process ends.

        Args:
            wait: Whether to wait for the lock.
            on_wait: Called before waiting.

        Yields:
            Whether the lock is held.
        """
        self.make_folder()
        with file_lock(self.folder / "learner.lock", wait=wait, on_wait=on_wait) as is_held:
            yield is_held

    def work_off(self, learn: Callable[[Job], bool], *, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Try each waiting job once, including those added in the meantime, unless another process holds the lock.

        Args:
            learn: Learns from a job, and removes it or records its failure. It returns whether to try the next job; if
                not, for example because the model is down, the remaining jobs stay in the queue.
            is_wanted: Called before each job; returns whether to continue.
        """
        tried: set[str] = set()
        # A process that adds a job while another one holds the lock relies on that one to read the queue again.
        while self._left(tried):
            with self.lock() as is_held:
                if not is_held:
                    return
                while (left := self._left(tried)) and is_wanted():
                    tried.add(left[0].path)
                    if not learn(left[0]):
                        return
            if not is_wanted():
                return

    def start_learner(self, module: str, *arguments: str) -> None:
        """Run a module in a new process and session, and return at once. Its errors are written to `log`.

        Args:
            module: The name of a module that processes the queue. `LEARNING_VARIABLE` is set in its environment, and
                the folder of the queue is its working directory.
            arguments: Its command-line arguments.

        Raises:
            OSError: The process cannot be started.
        """
        self.make_folder()
        mode = "ab" if not self.log.exists() or self.log.stat().st_size < _LOG_SIZE else "wb"
        create_private(self.log)
        with self.log.open(mode) as file:
            # Not waited for: it outlives this process, and the kill of this process's group does not reach it.
            subprocess.Popen(
                [sys.executable, "-E", "-P", "-m", module, *arguments],
                cwd=self.folder,
                env={**os.environ, LEARNING_VARIABLE: "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
            )

    def _left(self, tried: set[str]) -> list[Job]:
        return [job for job in self.waiting() if job.path not in tried]

    def _jobs(self) -> Iterator[Job]:
        for path in sorted((self.folder / "queue").glob("*.json")):
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:  # another process has just removed it
                continue
            except ValueError:  # not written by a queue; the learner reports a job without fields
                data = {}
            record = data if isinstance(data, dict) else {}
            yield Job(
                fields={name: text_in(record, name) for name in record if name not in _OWN_FIELDS},
                attempts=int(number_in(record, "attempts") or 0),
                error=text_in(record, "error"),
                path=str(path),
            )


@dataclass(frozen=True)
class MadeFolders:
    """A record of the folders that an installation has created, so that uninstalling can remove the empty ones.

    Example:
        >>> import tempfile
        >>> home = Path(tempfile.mkdtemp())
        >>> made = MadeFolders(home / "state" / "made-folders.json")
        >>> made.note([home / "hooks"])
        >>> (home / "hooks").mkdir()
        >>> made.remove_empty()
        >>> (home / "hooks").exists()
        False
    """

    path: Path
    """The file of the record."""

    def note(self, folders: Iterable[Path]) -> None:
        """Add folders to the record.

        Args:
            folders: The folders that are about to be created.
        """
        noted = self.read()
        wanted = list(dict.fromkeys([*noted, *map(str, folders)]))
        if wanted != noted:
            replace_file(self.path, f"{json.dumps(wanted)}\n".encode())

    def read(self) -> Sequence[str]:
        """Return the recorded folders; none if the record is missing or damaged."""
        try:
            noted = json.loads(self.path.read_bytes())
        except (FileNotFoundError, ValueError):  # empty folders are not removed then, which is harmless
            return []
        return [str(folder) for folder in noted] if isinstance(noted, list) else []

    def remove_empty(self, folders: Sequence[str] | None = None) -> None:
        """Remove the recorded folders that are empty, innermost first.

        Args:
            folders: The result of `read`, if the record has been deleted since; by default, the record is read.
        """
        remove_empty_folders(self.read() if folders is None else folders)


def remove_empty_folders(folders: Iterable[str]) -> None:
    """Remove those of the folders that are empty, innermost first."""
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # it contains other files of the user, or no longer exists
            Path(folder).rmdir()


def _write(path: Path, job: Job) -> None:
    record = {**job.fields, "attempts": job.attempts, "error": job.error}
    replace_file(path, json.dumps(record).encode())
