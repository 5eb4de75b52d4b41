"""Closes an issue: runs the tests, records the attempt, learns from it, and only then calls `bd close`."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ace.integrations import UsageError, note
from ace.loop import CommandRun, ExecutionTrace, TraceLog, run_command
from ace.redaction import Redactor
from ace_beads.client import Bead, BeadsClient
from ace_beads.learner import learn_command
from ace_beads.project import LEARNER_MODULE, Project

__all__ = ["Closing", "parsed_command"]

_GRACE: Final = 10.0
"""The time that a stopped process has to finish its step, in seconds, before it is killed. No skill is lost then."""
_OPERATORS: Final = {"&&", "||", ";", "|", ">", ">>", "<", "&", "2>&1"}


def parsed_command(text: str, origin: str) -> list[str]:
    """Return the program and the arguments in a text. No shell reads them.

    Args:
        text: The command.
        origin: The option or setting that contains it, for the error.

    Raises:
        UsageError: It is empty, has an unclosed quotation mark, or needs a shell.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{origin}: {text!r} cannot be read: {error}") from error
    if not words:
        raise UsageError(f"{origin}: no command in {text!r}")
    if found := next((word for word in words if word in _OPERATORS), None):
        raise UsageError(
            f"{origin}: no shell reads {text!r}, so {found!r} has no effect; use: sh -c {shlex.quote(text)}"
        )
    return words


@dataclass
class Closing:
    """The steps of closing an issue. Each step prints its result, and adds errors to `failures`."""

    client: BeadsClient
    bead: Bead
    project: Project
    log: TraceLog
    redactor: Redactor
    tell: Callable[[str], None]
    """Prints a line of the result."""
    failures: list[str] = field(default_factory=list)
    """The errors, as sentences."""

    def test(self, command: Sequence[str]) -> CommandRun:
        """Run the tests, and forward their output. Their environment contains the id of the issue in `ACE_TASK`.

        Args:
            command: The program and its arguments.

        Raises:
            UsageError: It cannot be started.
        """
        self.tell(f"test     {shlex.join(command)}")
        try:
            ran = run_command(command, environ={**os.environ, "ACE_TASK": self.bead.id}, redactor=self.redactor)
        except OSError as error:
            raise UsageError(
                f"cannot run {shlex.join(command)}: {error.strerror or error}; {self.bead.id} stays open, and nothing "
                "was captured"
            ) from error
        said = "passed" if ran.exit_code == 0 else f"failed with exit code {ran.exit_code}"
        self.tell(f"         {said}")
        return ran

    def capture(self, ran: CommandRun | None) -> bool:
        """Append the attempt to the trace log.

        Args:
            ran: The run of the tests; None without a test command, in which case the attempt counts as a success.

        Returns:
            Whether it was written.
        """
        description = "\n\n".join(filter(None, (self.bead.title, self.bead.description)))
        trace = ExecutionTrace(
            task_id=self.bead.id,
            outcome="failure" if ran is not None and ran.exit_code else "success",
            task_description=self.redactor.redact(description),
            execution_results=[] if ran is None else [ran.result],
            more={"tested": ran is not None},
        )
        try:
            self.log.append(trace)
        except OSError as error:
            self.failures.append(
                f"{self.log.path}: {error.strerror or error}; the attempt at {self.bead.id} was not captured"
            )
            return False
        self.tell(f"capture  {trace.place} ({trace.outcome}) in {self.log.path}")
        return True

    def learn(self, seconds: float) -> bool:
        """Learn from the attempts at the issue; if that fails or takes too long, queue it.

        Args:
            seconds: The time limit, in seconds.

        Returns:
            Whether learning has to continue in the background.
        """
        id = self.bead.id
        self.tell(f"learn    ace learn --task {id}")
        code = _learn_within(id, seconds)
        if code == 0:
            return False
        self.project.add_job(id, Path.cwd())
        if code is None:
            self.failures.append(
                f"learning from {id} took longer than {seconds:g} s; it continues in the background, and "
                "'ace beads status' shows whether it is done"
            )
            return True
        self.failures.append(
            f"learning from {id} failed with exit code {code}; it is queued and retried when the next issue is closed, "
            f"or run 'ace learn --task {id}'"
        )
        return False

    def close(self, reason: str) -> None:
        """Close the issue.

        Args:
            reason: The reason; if it is empty, `bd` uses its default.

        Raises:
            BeadsError: `bd` did not confirm that it is closed.
        """
        self.client.close(self.bead.id, reason)
        self.tell(f"close    {self.bead.id} is closed")

    def continue_in_background(self) -> None:
        """Start the learner, which outlives this process."""
        try:
            self.project.queue.start_learner(LEARNER_MODULE)
        except OSError as error:
            note(f"ace: the learner cannot be started: {error.strerror or error}")


def _learn_within(task_id: str, seconds: float) -> int | None:
    """Learn from the attempts at an issue, with the output of this process; None if it took too long."""
    with subprocess.Popen(learn_command(task_id), stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
    return None
