"""Runs batches in the background with DBOS, which only this module uses.

A batch is one workflow, whose id is that of the batch, so that queueing it twice changes nothing. Batches of one book
run one after the other, those of different books at the same time. DBOS is not relied on to do anything exactly once: a
workflow only calls `ace_server.learning.learn`, which may be called any number of times.

The loop of a worker does four things in turn, on a thread of its own:

- it records in the table `worker` that the worker is alive;
- it makes batches (`ace_server.batches`) and queues those that are not queued yet, such as those of a process that was
  killed in between;
- it deletes the records of DBOS on batches that ended long ago;
- it resumes the batches of workers that have stopped or are silent. DBOS itself resumes only the workflows of its own
  executor id, and every worker has a new one.

With SQLite, one process works at a time, which holds a lock on a file. So the batches of others are resumed there at
once.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, final

import sqlalchemy as sa

from ace.integrations import UsageError, passing_lock
from ace.pipeline import CancellationToken
from ace.skillbook import SkillbookError
from ace_server import tables
from ace_server.batches import make_batches
from ace_server.database import DatabaseUnavailableError, new_id, now
from ace_server.error_places import described
from ace_server.learning import STOPPING, Outcome, learn, note_failure

if TYPE_CHECKING:
    from ace_server.database import Database
    from ace_server.service import Service

__all__ = ["APPLICATION_VERSION", "Worker", "WorkerRunningError", "start_worker"]

logger = logging.getLogger(__name__)

APPLICATION_VERSION: Final = "jobs-1"
"""The version of the workflows. DBOS ignores the workflows of other versions, so it only changes with their meaning."""

_QUEUE: Final = "batches"
_WORKFLOW: Final = "feedback"
_LOCK: Final = "worker.lock"
_BATCH: Final = tables.batch
_WORKER: Final = tables.worker
_SCHEDULER_SECONDS: Final = 3600.0
"""How often DBOS checks for schedules; the service does not use them."""
_CLEANING_SECONDS: Final = 3600.0
_DAY: Final = 86_400.0
_ENDED: Final = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
_MOST_DELETED: Final = 1_000
_SQLITE_NEEDED: Final = (3, 42) if sys.version_info >= (3, 12) else (3, 35)
"""DBOS takes work from its queues with `RETURNING`, which SQLite has from 3.35 on: on Python 3.11, everything works
with 3.35.2, and with 3.34.0 no batch is ever started. On newer versions of Python, DBOS computes milliseconds with
`unixepoch('subsec')`, which SQLite has from 3.42 on."""
_LONGEST_STOP: Final = 600.0
"""How long a stopping worker waits for its samples, in seconds: longer than any model call."""


class WorkerRunningError(UsageError):
    """Another process works on the same SQLite database already."""


class _StoppedError(BaseException):
    """Ends a workflow without an outcome, so that it stays pending. DBOS only catches an `Exception`."""


def start_worker(service: Service) -> Worker:
    """Start the worker of this process. The caller must stop it.

    It takes some seconds, because DBOS is imported. A process has at most one worker.

    Raises:
        WorkerRunningError: Another process works on the same SQLite database.
        DatabaseUnavailableError: The database cannot be read or written.
    """
    worker = Worker(service)
    worker.start()
    return worker


@final
class Worker:
    """The worker of this process; `start_worker` starts it."""

    def __init__(self, service: Service) -> None:
        self.id = new_id("wrk")
        self._service = service
        self._open = ExitStack()
        self._stopping = threading.Event()
        self._tokens: set[CancellationToken] = set()
        self._queued: set[tuple[str, int]] = set()
        self._failing: set[str] = set()
        self._changed = threading.Condition()
        self._loop = threading.Thread(target=self._work, name="ace-server-worker", daemon=True)

    def start(self) -> None:
        """Start it.

        Raises:
            UsageError: The SQLite of this Python is too old.
            WorkerRunningError: Another process works on the same SQLite database.
            DatabaseUnavailableError: The database cannot be read or written.
        """
        with ExitStack() as opening:
            if self._service.database.is_sqlite:
                _check_sqlite()
                path = self._service.settings.data / _LOCK
                if not opening.enter_context(passing_lock(path)):
                    raise WorkerRunningError(
                        f"another process works on {self._service.database.shown} already, and SQLite allows one at a "
                        "time; stop it, or use a Postgres database (--database postgresql://...)"
                    )
            self._beat()
            self._enqueue = _launched(self._service, self.id, self._run)
            opening.callback(_destroyed)
            self._open = opening.pop_all()
        self._loop.start()
        logger.info("Worker %s started", self.id)

    def stop(self) -> None:
        """Stop at the end of the samples that are being learned from. Their batches stay queued."""
        self._stopping.set()
        with self._changed:
            for token in self._tokens:
                token.cancel(STOPPING)
            if not self._changed.wait_for(lambda: not self._tokens, _LONGEST_STOP):
                logger.warning("Worker %s stops although a sample has not ended", self.id)
        self._loop.join(_LONGEST_STOP)
        self._open.close()
        try:
            with self._service.database.writing() as connection:
                own = sa.update(_WORKER).where(_WORKER.c.id == self.id)
                connection.execute(own.values(stopped_at=now()))
        except DatabaseUnavailableError as error:  # others notice that it is silent
            logger.warning("Worker %s could not note that it has stopped: %s", self.id, error)
        logger.info("Worker %s stopped", self.id)

    def _work(self) -> None:
        settings = self._service.settings
        due = {
            self._beat: (settings.heartbeat_seconds, 0.0),
            self._resume_silent: (settings.heartbeat_seconds, 0.0),
            self._make_batches: (settings.schedule_seconds, 0.0),
            self._delete_workflows: (_CLEANING_SECONDS, 0.0),
        }
        pause = min(settings.heartbeat_seconds, settings.schedule_seconds)
        while True:
            for job, (interval, at) in due.items():
                if now() >= at:
                    self._attempt(job)
                    due[job] = (interval, now() + interval)
            if self._stopping.wait(pause):
                return

    def _attempt(self, work: Callable[[], None]) -> None:
        """Run a task that is repeated. The first of several failures in a row is logged, and the recovery."""
        name = work.__name__.strip("_")
        try:
            work()
        except Exception as error:
            if name not in self._failing:
                said = error if isinstance(error, DatabaseUnavailableError) else f"unexpected {described(error)}"
                logger.warning("Worker %s: %s failed and will be repeated: %s", self.id, name, said)
            self._failing.add(name)
        else:
            if name in self._failing:
                logger.info("Worker %s: %s works again", self.id, name)
            self._failing.discard(name)

    def _beat(self) -> None:
        with self._service.database.writing() as connection:
            seen = sa.update(_WORKER).where(_WORKER.c.id == self.id).values(at=now())
            if connection.execute(seen).rowcount == 0:
                about = {"host": socket.gethostname(), "process": os.getpid(), "started_at": now(), "at": now()}
                connection.execute(sa.insert(_WORKER).values(id=self.id, **about))

    def _make_batches(self) -> None:
        make_batches(self._service)
        with self._service.database.reading() as connection:
            queued = connection.execute(sa.select(_BATCH).where(_BATCH.c.state == "queued").order_by(_BATCH.c.id)).all()
        for row in queued:
            if (row.id, row.attempts) not in self._queued:
                self._enqueue(row.id, row.book, row.attempts)
        self._queued = {(row.id, row.attempts) for row in queued}

    def _resume_silent(self) -> None:
        """Queue the batches of silent workers, and delete the rows of these workers."""
        silent_since = now() - self._service.settings.silent_seconds
        is_gone: sa.ColumnElement[bool] = (_WORKER.c.at < silent_since) | _WORKER.c.stopped_at.is_not(None)
        if self._service.database.is_sqlite:  # this process has the lock, so all others have ended
            is_gone = sa.true()
        with self._service.database.reading() as connection:
            gone = list(connection.scalars(sa.select(_WORKER.c.id).where(_WORKER.c.id != self.id, is_gone)))
        if not gone:
            return
        resumed = _resume(gone)
        for batch in resumed:
            logger.warning("Worker %s resumes %s, whose worker has ended or is silent", self.id, batch)
        with self._service.database.writing() as connection:
            connection.execute(sa.delete(_WORKER).where(_WORKER.c.id.in_(gone), is_gone))

    def _delete_workflows(self) -> None:
        """Delete the workflows that ended before the period of the settings."""
        from dbos import DBOS

        before = datetime.fromtimestamp(now() - self._service.settings.keep_workflows * _DAY, UTC).isoformat()
        while ended := DBOS.list_workflows(
            status=list(_ENDED), completed_before=before, limit=_MOST_DELETED, load_input=False, load_output=False
        ):
            DBOS.delete_workflows([workflow.workflow_id for workflow in ended])

    def _run(self, batch: str) -> None:
        """Learn from a batch until it has ended. This is the workflow."""
        settings = self._service.settings
        pause = settings.retry_seconds
        while True:
            outcome = self._attempted(batch)
            if outcome == "ended":
                return
            if outcome == "again":
                self._stopping.wait(pause)
                pause *= 2
            elif outcome == "waits":
                self._stopping.wait(settings.heartbeat_seconds)
            if self._stopping.is_set():
                raise _StoppedError

    def _attempted(self, batch: str) -> Outcome | Literal["waits"]:
        """Make one attempt at a batch, which `stop` can end."""
        token = CancellationToken()
        with self._changed:
            if self._stopping.is_set():
                return "stopped"
            self._tokens.add(token)
        try:
            return self._learned(batch, token)
        finally:
            with self._changed:
                self._tokens.discard(token)
                self._changed.notify_all()

    def _learned(self, batch: str, token: CancellationToken) -> Outcome | Literal["waits"]:
        """Make one attempt, and note its end even if it fails. Without the database, nothing has ended."""
        from ace.runners import RunInUseError

        try:
            return learn(self._service, batch, worker=self.id, token=token)
        except (DatabaseUnavailableError, RunInUseError) as error:
            logger.warning("Batch %s waits: %s", batch, error)
            return "waits"
        except (SkillbookError, UsageError) as error:
            problem = str(error)
        except Exception as error:
            logger.error("Batch %s: an attempt failed with an unexpected %s", batch, described(error))
            problem = type(error).__name__  # the message can quote a user, and so does a traceback
        try:
            return note_failure(self._service, batch, problem)
        except DatabaseUnavailableError as error:
            logger.warning("Batch %s waits: %s", batch, error)
            return "waits"


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < _SQLITE_NEEDED:
        raise UsageError(
            f"learning needs SQLite {'.'.join(map(str, _SQLITE_NEEDED))} or newer, and this Python has "
            f"{sqlite3.sqlite_version}; use Python 3.11, a Python with a newer SQLite, or a Postgres database "
            "(--database postgresql://...)"
        )


def _launched(service: Service, worker: str, run: Callable[[str], None]) -> Callable[[str, str, int], None]:
    """Start DBOS with its tables in the database of the service, and return the function that queues a batch."""
    from dbos import DBOS, SetEnqueueOptions, SetWorkflowID

    # With a handler of its own it would print to the terminal; so its records go to the handlers of the program.
    logging.getLogger("dbos").addHandler(logging.NullHandler())
    database, settings = service.database, service.settings
    DBOS(
        config={
            "name": "ace-server",
            "system_database_url": _address(database),
            # It polls every second, and repeats what fails because of a lost connection: a ping would double its work.
            "db_engine_kwargs": {"pool_pre_ping": False, "pool_size": 5, "max_overflow": 15},
            "dbos_system_schema": database.schema or "main",
            "application_version": APPLICATION_VERSION,
            "executor_id": worker,
            "log_level": "WARNING",
            "enable_otlp": False,
            "use_listen_notify": False,  # nothing waits for a notification
            "scheduler_polling_interval_sec": _SCHEDULER_SECONDS,
        }
    )

    @DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=None)
    def feedback(batch: str) -> None:
        run(batch)

    DBOS.listen_queues([_QUEUE])
    DBOS.launch()
    DBOS.register_queue(
        _QUEUE,
        worker_concurrency=settings.concurrency,
        partition_concurrency=1,
        polling_interval_sec=settings.schedule_seconds,
        on_conflict="always_update",
    )

    def enqueue(batch: str, book: str, attempts: int) -> None:
        # A batch that a person has queued again is a workflow of its own.
        name = f"feedback-{batch}-{attempts}" if attempts else f"feedback-{batch}"
        with SetWorkflowID(name), SetEnqueueOptions(queue_partition_key=book):
            DBOS.enqueue_workflow(_QUEUE, feedback, batch)

    return enqueue


def _destroyed() -> None:
    from dbos import DBOS

    DBOS.destroy(destroy_registry=True)


def _resume(workers: Sequence[str]) -> list[str]:
    """Queue the workflows again that workers were running, and return their ids."""
    from dbos import DBOS

    found = DBOS.list_workflows(status="PENDING", executor_id=list(workers), load_input=False, load_output=False)
    ids = [workflow.workflow_id for workflow in found]
    if ids:
        DBOS.resume_workflows(ids, queue_name=_QUEUE)
    return ids


def _address(database: Database) -> str:
    """Return the address in the form that DBOS requires."""
    return database.url.replace("sqlite+pysqlite://", "sqlite://").replace("postgresql+psycopg://", "postgresql://")
