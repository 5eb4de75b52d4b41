"""Runs the binary so that it can be stopped together with its child processes."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import contextvars
import os
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, final

from ace.pipeline import PipelineCancelled, cancel_token_var

__all__ = ["ClaudeProcess", "FinishedProcess"]

_LOOK_EVERY = 0.1
# The time that the binary has to end the commands of its tools, in seconds.
_GRACE = 10.0
# Inherited by every process of a run, which identifies those that detached themselves.
_RUN_VARIABLE = "ACE_CLAUDE_RUN"


@dataclass(frozen=True)
class FinishedProcess:
    """A process that has ended."""

    stdout: bytes
    stderr: str
    returncode: int
    """The exit code; negative if a signal ended the process."""
    timed_out: bool
    """Whether it was stopped because of its timeout."""
    seconds: float
    """The duration of the run, in seconds."""


@final
class ClaudeProcess:
    """One run of the binary.

    It is stopped with SIGTERM, on which it ends the commands of its tools. These run in separate sessions, so signals
    to its process group do not reach them. Processes that are left or do not react are killed. Standard input and
    output are files, so that a pipe cannot fill up or be kept open.

    Args:
        command: The program and its arguments.
        stdin: The standard input.
        cwd: The working directory.
        environ: The complete environment.
        timeout: The time limit, in seconds; None sets no limit.
        grace: The time to end after SIGTERM, in seconds.
        heeds_token: Whether the cancellation token of a pipeline run stops the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: str,
        cwd: Path,
        environ: Mapping[str, str],
        timeout: float | None,
        grace: float = _GRACE,
        heeds_token: bool = True,
    ) -> None:
        self._command = list(command)
        self._stdin = stdin
        self._cwd = cwd
        self._run_id = uuid.uuid4().hex
        self._environ = {**environ, _RUN_VARIABLE: self._run_id}
        self._timeout = timeout
        self._grace = grace
        self._heeds_token = heeds_token
        self._stop = threading.Event()

    def run(self) -> FinishedProcess:
        """Run the process and wait for its end. Cancelling the pipeline run stops it, and so does Ctrl-C.

        Raises:
            PipelineCancelled: The run was cancelled; the process and its children have ended.
            OSError: The program cannot be started.
        """
        if threading.current_thread() is not threading.main_thread():
            return self._run()
        # Ctrl-C inside `subprocess` may leave the process running, or keep a lock that the next wait needs. So the main
        # thread waits for another one, and only acquires a lock of its own.
        outcomes: list[FinishedProcess | BaseException] = []
        over = threading.Lock()
        over.acquire()
        context = contextvars.copy_context()
        has_begun = False

        def work() -> None:
            nonlocal has_begun
            has_begun = True  # before it looks for a stop; the main thread stops it before it looks at this
            try:
                outcomes.append(context.run(self._run))
            except BaseException as error:
                outcomes.append(error)
            finally:
                over.release()

        try:
            _thread.start_new_thread(work, ())  # `Thread.start` waits for the thread, with a lock of the same kind
            while not outcomes:
                over.acquire()
        except BaseException:
            self.stop()
            while has_begun and not outcomes:
                over.acquire()
            raise
        [outcome] = outcomes
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _run(self) -> FinishedProcess:
        if self._stop.is_set():
            raise PipelineCancelled("the run of Claude Code was cancelled")
        token = cancel_token_var.get() if self._heeds_token else None
        started = time.monotonic()
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(self._stdin.encode("utf-8", "backslashreplace"))
            stdin.seek(0)
            process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._environ,
                stdin=stdin,
                stdout=out,
                stderr=err,
                # Ctrl-C in a terminal must not reach the process: running tasks may finish.
                start_new_session=True,
            )
            timed_out = False
            try:
                while not _has_ended(process):
                    timed_out = self._timeout is not None and time.monotonic() - started > self._timeout
                    if timed_out or self._stop.is_set() or (token is not None and token.is_cancelled):
                        break
            finally:
                self._end_with_children(process)
            if not timed_out and (self._stop.is_set() or (token is not None and token.is_cancelled)):
                raise PipelineCancelled("the run of Claude Code was cancelled")
            out.seek(0)
            err.seek(0)
            return FinishedProcess(
                stdout=out.read(),
                stderr=err.read().decode("utf-8", "replace"),
                returncode=process.returncode,
                timed_out=timed_out,
                seconds=time.monotonic() - started,
            )

    def stop(self) -> None:
        """Make `run` stop the process and raise an error. Thread-safe."""
        self._stop.set()

    async def run_async(self) -> FinishedProcess:
        """Run the process without blocking, like `run`. If the task is cancelled, the process is stopped first.

        Raises:
            PipelineCancelled: The run was cancelled by its token.
            asyncio.CancelledError: The task was cancelled.
            OSError: The program cannot be started.
        """
        # A separate thread, because the number of threads in the loop's default pool is limited.
        with ThreadPoolExecutor(1, "ace-claude-code") as executor:
            run = partial(contextvars.copy_context().run, self.run)
            work = asyncio.get_running_loop().run_in_executor(executor, run)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                self.stop()
                while not work.done():
                    with contextlib.suppress(asyncio.CancelledError):  # wait for the process in any case
                        await asyncio.wait([work])
                work.exception()
                raise
            finally:
                self.stop()  # the task may have been destroyed with its loop

    def _end_with_children(self, process: subprocess.Popen[bytes]) -> None:
        """Terminate a process that is still running, and kill the remaining processes that it started."""
        if process.poll() is not None:
            return
        # Search while it is running: the children of an ended process have another parent.
        started = dict.fromkeys(descendants(process.pid))
        process.send_signal(signal.SIGTERM)
        end = time.monotonic() + self._grace
        while not _has_ended(process) and time.monotonic() < end:
            started |= dict.fromkeys(descendants(process.pid))
        if process.poll() is None:
            process.kill()
            process.wait()
        for orphan in started | dict.fromkeys(processes_with(_RUN_VARIABLE, self._run_id)):
            if is_alive(orphan):
                with contextlib.suppress(ProcessLookupError):  # it has already ended
                    os.kill(orphan.pid, signal.SIGKILL)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LOOK_EVERY)
        return True
    return False


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
