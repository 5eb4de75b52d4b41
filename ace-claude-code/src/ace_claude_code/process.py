"""Runs the binary so that it can be stopped, its own children included."""

from __future__ import annotations

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
from typing import final

from ace.pipeline import PipelineCancelled, cancel_token_var
from ace_claude_code.process_tree import descendants, is_alive, processes_with

__all__ = ["ClaudeProcess", "FinishedProcess"]

_LOOK_EVERY = 0.1
# The binary needs this long at most to end what its tools have started.
_GRACE = 10.0
# Every process that a run starts inherits it, and is known by it when nothing else tells where it comes from.
_RUN_VARIABLE = "ACE_CLAUDE_RUN"


@dataclass(frozen=True)
class FinishedProcess:
    """A process that has ended."""

    stdout: bytes
    stderr: str
    returncode: int
    """Negative where a signal ended it."""
    timed_out: bool
    """Whether it was stopped because its time was over."""
    seconds: float
    """How long it ran."""


@final
class ClaudeProcess:
    """One run of the binary.

    It is told to stop with SIGTERM, whereupon it ends the commands of its tools: they run in sessions of their own,
    where no signal to a process group reaches them. What is left of them, or does not listen, is killed. Input
    and output are files, so that no pipe can fill up or be held open.

    Args:
        command: The program and its arguments.
        stdin: What it reads.
        cwd: The folder that it works in.
        environ: Its whole environment.
        timeout: After how many seconds it is stopped; None never does.
        grace: How many seconds it has to end when it is told to.
        heeds_token: Whether the cancellation token of a run of a pipeline stops it.
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
        """Run it to its end. A cancelled run of a pipeline stops it.

        Raises:
            PipelineCancelled: The run was cancelled; the process and its children have ended then.
            OSError: The program cannot be started.
        """
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
                # Ctrl-C in a terminal is for us: what is under way may finish.
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
        """Have `run` stop the process and raise; from any thread."""
        self._stop.set()

    async def run_async(self) -> FinishedProcess:
        """Do as `run` does; cancelling the task stops the process before the cancellation proceeds.

        Raises:
            PipelineCancelled: The run was cancelled by its token.
            asyncio.CancelledError: The task was cancelled.
            OSError: The program cannot be started.
        """
        # A thread of its own: the loop's pool has as many threads as the machine has processors.
        with ThreadPoolExecutor(1, "ace-claude-code") as executor:
            run = partial(contextvars.copy_context().run, self.run)
            work = asyncio.get_running_loop().run_in_executor(executor, run)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                self.stop()
                while not work.done():
                    with contextlib.suppress(asyncio.CancelledError):  # the process ends first, however often asked
                        await asyncio.wait([work])
                work.exception()
                raise

    def _end_with_children(self, process: subprocess.Popen[bytes]) -> None:
        """Tell a process to end, and kill what is left of all that it started; one that has ended is left alone."""
        if process.poll() is not None:
            return
        # Looked for while it lives: the children of a dead process are nobody's.
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
                with contextlib.suppress(ProcessLookupError):  # it went by itself
                    os.kill(orphan.pid, signal.SIGKILL)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LOOK_EVERY)
        return True
    return False
