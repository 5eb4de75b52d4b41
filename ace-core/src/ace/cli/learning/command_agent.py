"""`CommandAgent`: the user's own agent, a command that is run once for each question."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from ace.cli.errors import UsageError
from ace.cli.signals import on_forced_exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ace.outputs import AgentOutput
    from ace.protocols.roles import SkillbookReader

__all__ = ["AgentCommandError", "CommandAgent"]

_QUESTION: Final = "{question}"
_SKILLS_FILE: Final = "{skills_file}"
_LONGEST_ERROR: Final = 300
_MOST_FAILURES: Final = 3
"""A command that has failed this often, and never answered, is not started again."""


class AgentCommandError(RuntimeError):
    """The command gave no answer to a question. The text says why."""


@final
class CommandAgent:
    """An agent that runs a command, without a shell. What it prints is the answer.

    The skills precede the question in its argument or, if the command has an argument with `{skills_file}`, are in the
    file that replaces it.

    Args:
        command: The command line, with `{question}` in one of its arguments.
        timeout: After so many seconds, the command and its child processes are killed.

    Raises:
        UsageError: The command cannot be parsed, has no `{question}`, or there is no such program.
    """

    def __init__(self, command: str, timeout: float) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--agent: {error} in {command!r}") from error
        if not any(_QUESTION in word for word in self._words[1:]):
            raise UsageError(
                f"--agent: {command!r} has no argument {_QUESTION}, which the question replaces, "
                "as in: --agent 'my-agent {question}'"
            )
        if shutil.which(self._words[0]) is None:
            raise UsageError(f"--agent: there is no program {self._words[0]!r}; check its name, or give its path")
        self.name = self._words[0]
        self._takes_file = any(_SKILLS_FILE in word for word in self._words)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._has_answered = False
        self._failures: list[str] = []

    @property
    def failure(self) -> str:
        """Why the command failed; empty if it has answered a question."""
        return "" if self._has_answered or not self._failures else self._failures[0]

    def generate(self, *, question: str, context: str, skillbook: SkillbookReader, **kwargs: object) -> AgentOutput:
        """Run the command, and return what it printed.

        Args:
            question: The question; the context follows it.
            context: Additional information.
            skillbook: The skills.

        Raises:
            AgentCommandError: It failed, timed out, or could not be started.
        """
        from ace.outputs import AgentOutput  # imports pydantic, which other commands do not need

        with self._lock:
            if not self._has_answered and len(self._failures) >= _MOST_FAILURES:
                raise AgentCommandError(f"not started again after {_MOST_FAILURES} failures: {self._failures[0]}")
        task = f"{question}\n\n{context}" if context else question
        try:
            answer = self._answer(task, skillbook)
        except AgentCommandError as error:
            with self._lock:
                self._failures.append(str(error))
            raise
        with self._lock:
            self._has_answered = True
        return AgentOutput(reasoning="", final_answer=answer)

    def _answer(self, task: str, skillbook: SkillbookReader) -> str:
        from ace.roles.prompts import wrap_skillbook_for_external_agent

        skills = wrap_skillbook_for_external_agent(skillbook)
        if not self._takes_file:
            return self._run(f"{skills}\n\n{task}" if skills else task, "")
        with _file_with(skills) as path:
            return self._run(task, path)

    def _run(self, question: str, skills_file: str) -> str:
        # Replaced at once, so that braces in the question stay as they are.
        words = [
            question.join(part.replace(_SKILLS_FILE, skills_file) for part in word.split(_QUESTION))
            for word in self._words
        ]
        try:
            process = subprocess.Popen(
                [word.replace("\0", "\ufffd") for word in words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise AgentCommandError(f"{self.name!r} cannot be started: {error.strerror}") from error
        with process, on_forced_exit(lambda: _kill(process)):
            try:
                answer, complaint = process.communicate(timeout=self._timeout)
            except subprocess.TimeoutExpired as error:
                _kill(process)
                raise AgentCommandError(
                    f"{self.name!r} gave no answer within {self._timeout:g} s; --agent-timeout allows more"
                ) from error
            except BaseException:
                _kill(process)
                raise
        if process.returncode != 0:
            raise AgentCommandError(_failed(self.name, process.returncode, complaint))
        return answer.strip()


def _failed(name: str, code: int, complaint: str) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    last = " ".join(complaint.split())[-_LONGEST_ERROR:]
    return f"{name!r} {how}{f': {last}' if last else ''}"


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a command and its child processes, which would keep its output open."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def _file_with(text: str) -> Iterator[str]:
    with (
        tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="ace-skills-", suffix=".md") as file,
        on_forced_exit(lambda: Path(file.name).unlink(missing_ok=True)),
    ):
        file.write(text)
        file.flush()
        yield file.name
