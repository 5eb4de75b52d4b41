"""Runs `bd`, the program of the issue tracker beads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from ace.integrations import LEARNING_VARIABLE, Record, list_in, mapping_in, number_in, shown, text_in
from ace.loop import check_task_id

__all__ = ["BINARY_VARIABLE", "Bead", "BeadsClient", "BeadsError", "BeadsNotFoundError", "BeadsTimeoutError"]

BINARY_VARIABLE: Final = "ACE_BD_BINARY"
"""The environment variable with the path of `bd`, if it is not on PATH."""
_LONGEST_QUOTE: Final = 200


class BeadsError(Exception):
    """`bd` failed, or its output cannot be read."""


class BeadsNotFoundError(BeadsError):
    """`bd` is not installed, or cannot be started."""


class BeadsTimeoutError(BeadsError):
    """`bd` exceeded the timeout, and was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bead:
    """An issue of the tracker."""

    id: str
    """Its id, such as `bd-42`."""
    title: str
    """The title, in one line."""
    status: str
    """The status, such as `open`, `in_progress` or `closed`."""
    description: str = ""
    """The description; may be empty."""
    issue_type: str = ""
    """The type, such as `bug` or `task`."""
    priority: int | None = None
    """The priority, from 0 (highest) to 4; None if it is not known."""
    labels: Sequence[str] = ()
    """Its labels."""
    close_reason: str = ""
    """Why it was closed."""

    @property
    def is_closed(self) -> bool:
        """Whether it is closed."""
        return self.status == "closed"


class BeadsClient:
    """Reads and closes issues with the program `bd`.

    Both JSON formats are supported: a list of issues, and an object with the list in `data`, which is the default from
    version 2.0. The hook of `ace beads install` ignores issues that are closed by this class.

    Args:
        binary: The path of the program. The default is the variable `ACE_BD_BINARY`, or `bd` on PATH if it is not set.
        folder: A folder of the project. `bd` looks for `.beads` in this folder and its parents.
        timeout: The timeout of a call, in seconds.

    Example:
        >>> BeadsClient("/nowhere/bd").version()
        Traceback (most recent call last):
        ...
        ace_beads.client.BeadsNotFoundError: '/nowhere/bd' was not found: install bd (https://github.com/steveyegge...
    """

    def __init__(self, binary: str | None = None, folder: str | Path = ".", *, timeout: float = 30.0) -> None:
        self.binary: Final = binary or os.environ.get(BINARY_VARIABLE) or "bd"
        """The program."""
        self.folder: Final = Path(folder)
        """The folder in which it is run."""
        self.timeout: Final = timeout
        """The timeout of a call, in seconds."""

    def version(self) -> str:
        """Return the version of `bd`, such as `1.0.5`.

        Raises:
            BeadsError: `bd` cannot be run, or does not print a version.
        """
        printed = self._run("version").strip()
        words = printed.split("\n")[0].split()
        found = next((word for word in words if word[:1].isdigit()), None)
        if found is None:
            raise BeadsError(f"'bd version' printed no version: {_quoted(printed)}")
        return found

    def show(self, id: str) -> Bead:
        """Return an issue.

        Args:
            id: The id of the issue.

        Raises:
            ValueError: The id is not valid.
            BeadsError: The issue does not exist, or `bd` cannot be run.
        """
        command = ("show", check_task_id(id), "--json")
        issues = _issues_in(self._run(*command), command)
        if len(issues) != 1:
            raise BeadsError(f"'bd {' '.join(command)}' printed {len(issues)} issues, not one")
        return issues[0]

    def close(self, id: str, reason: str = "") -> Bead:
        """Close an issue, and return it.

        Args:
            id: The id of the issue.
            reason: The reason; if it is empty, `bd` uses its default.

        Raises:
            ValueError: The id is not valid.
            BeadsError: `bd` did not confirm that it is closed, or cannot be run.
        """
        command = ("close", check_task_id(id), *([f"--reason={reason}"] if reason else []), "--json")
        closed = _issues_in(self._run(*command), ("close", id, "--json"))
        found = next((bead for bead in closed if bead.is_closed), None)
        if found is None:
            raise BeadsError(f"'bd close {id}' did not close it; 'bd show {id}' shows its state")
        return found

    def _run(self, *arguments: str) -> str:
        """Return the output of a `bd` command, which goes to files: a leftover process could keep pipes open."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(
                    [self.binary, *arguments],
                    cwd=self.folder,
                    env={**os.environ, LEARNING_VARIABLE: "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:
                raise BeadsNotFoundError(self._why_not_started(error)) from error
            try:
                code = process.wait(self.timeout)
            except BaseException as error:
                _kill(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise BeadsTimeoutError(
                        f"'bd {arguments[0]}' did not end within {self.timeout:g} s, and was killed"
                    ) from None
                raise
            printed, complaint = _content_of(out), _content_of(err)
        if code:
            said = _error_in(complaint) or _error_in(printed) or f"exit code {code}"
            raise BeadsError(f"'bd {' '.join(arguments[:2])}' failed: {said}")
        return printed

    def _why_not_started(self, error: OSError) -> str:
        if not self.folder.is_dir():
            return f"no such folder: {str(self.folder)!r}"
        if isinstance(error, FileNotFoundError):
            return (
                f"{self.binary!r} was not found: install bd (https://github.com/steveyegge/beads), or name it with the "
                f"variable {BINARY_VARIABLE}"
            )
        return f"{self.binary!r} cannot be started: {error.strerror}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # Not `process.wait()`: if Ctrl-C has interrupted another `wait`, a lock of the process may never be released.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, 0)
    process.returncode = -signal.SIGKILL


def _content_of(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _issues_in(printed: str, command: Sequence[str]) -> list[Bead]:
    """Return the issues in the JSON output of a command."""
    wrong = BeadsError(f"'bd {' '.join(command)}' did not print issues as JSON, but {_quoted(printed)}")
    try:
        found = json.loads(printed)
    except (ValueError, RecursionError):
        raise wrong from None
    if isinstance(found, dict) and "schema_version" in found and "data" in found:
        found = found["data"]
    records = found if isinstance(found, list) else [found]
    if not all(isinstance(record, dict) for record in records):
        raise wrong
    try:
        return [_bead(record) for record in records]
    except ValueError:
        raise wrong from None


def _bead(record: Record) -> Bead:
    """Return the issue in a record.

    Raises:
        ValueError: It is not an issue.
    """
    status = text_in(record, "status")
    if not status:
        raise ValueError("an issue without a status")
    priority = number_in(record, "priority")
    return Bead(
        id=check_task_id(record.get("id")),
        title=text_in(record, "title"),
        status=status,
        description=text_in(record, "description"),
        issue_type=text_in(record, "issue_type"),
        priority=None if priority is None else int(priority),
        labels=tuple(label for label in list_in(record, "labels") if isinstance(label, str)),
        close_reason=text_in(record, "close_reason"),
    )


def _error_in(text: str) -> str:
    """Return the error in a JSON object, or the last line of any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return text_in(found, "error") or text_in(mapping_in(found, "data"), "error")
    lines = text.strip().splitlines()
    return lines[-1].strip()[:_LONGEST_QUOTE] if lines else ""


def _quoted(text: str) -> str:
    return shown(text.strip()[:_LONGEST_QUOTE]) if text.strip() else "nothing"
