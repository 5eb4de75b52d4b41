"""Runs a command, forwards its output, and records the result."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import BinaryIO, Final, NamedTuple

from ace.loop.command_output import errors_in, without_escapes
from ace.loop.execution import ExecutionError, ExecutionResult
from ace.redaction import Redactor

__all__ = ["CommandRun", "run_command"]

_CHUNK: Final = 65536
_EXAMINED: Final = 1_000_000
"""How much of the end of the output is searched for errors, in bytes."""
_RECORDED: Final = 20_000
"""How much of the end of the output is recorded, in bytes."""
_LOOK_INTERVAL: Final = 0.1
"""The time between two checks whether the command has ended, in seconds: a process that it left behind may keep its
output open."""


class CommandRun(NamedTuple):
    """A command that has run."""

    result: ExecutionResult
    """What it did, redacted. `more` has `duration_seconds`, `exit_code` and `output`, its last 20 kB."""
    exit_code: int
    """Its exit code; as in a shell, 128 and the number of the signal that ended it."""


def run_command(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    redactor: Redactor | None = None,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
) -> CommandRun:
    """Run a command, forward its output as it is written, and record it.

    If this function is interrupted, the command is terminated.

    Args:
        command: The program and its arguments; no shell reads them.
        environ: The environment; by default that of this process.
        redactor: Redacts the command line, the errors and the output that are recorded, but not what is written; by
            default, all classes of sensitive text.
        stdout: Where its standard output is written; by default to that of this process.
        stderr: Where its standard error is written; by default to that of this process.

    Raises:
        OSError: The program does not exist, or cannot be started.
    """
    started = time.monotonic()
    with subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=None if environ is None else dict(environ)
    ) as process:
        try:
            data = _output_of(process, _Target(stdout or sys.stdout.buffer), _Target(stderr or sys.stderr.buffer))
        except BaseException:
            process.terminate()
            raise
    duration = round(time.monotonic() - started, 3)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    redactor = Redactor() if redactor is None else redactor
    text = without_escapes(data.decode("utf-8", "replace"))
    runner = _runner_of(command)
    status: Final = "fail" if code else "pass"
    result = ExecutionResult(
        runner=runner,
        command=redactor.redact(" ".join(command)),
        status=status,
        errors=tuple(_redacted(error, redactor) for error in errors_in(text, runner, status=status)),
        more={"exit_code": code, "duration_seconds": duration, "output": _end_of(text, redactor)},
    )
    return CommandRun(result, code)


def _output_of(process: subprocess.Popen[bytes], stdout: _Target, stderr: _Target) -> bytes:
    """Pass on the output until the command has ended, and return the end of it, line by line as it came."""
    kept = bytearray()
    pending: dict[int, bytes] = {}
    with selectors.DefaultSelector() as selector:
        for pipe, target in ((process.stdout, stdout), (process.stderr, stderr)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, target)
        while selector.get_map():
            has_ended = process.poll() is not None
            ready = selector.select(_LOOK_INTERVAL)
            if has_ended and not ready:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                    continue
                key.data.write(chunk)
                complete, newline, rest = (pending.get(key.fd, b"") + chunk).rpartition(b"\n")
                kept += complete + newline
                pending[key.fd] = rest[-_EXAMINED:]
                del kept[:-_EXAMINED]
    return bytes(kept) + b"\n".join(rest for rest in pending.values() if rest)


class _Target:
    """A stream that is written to until its reader is gone: the command runs to its end without one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._has_reader = True

    def write(self, data: bytes) -> None:
        if not self._has_reader:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            self._has_reader = False


def _runner_of(command: Sequence[str]) -> str:
    """Return the name of the program that a command runs: of `python -m pytest`, it is `pytest`."""
    name = PurePath(command[0]).name
    if name.startswith("python") and "-m" in command[1:-1]:
        return command[command.index("-m") + 1]
    return name


def _redacted(error: ExecutionError, redactor: Redactor) -> ExecutionError:
    return ExecutionError(
        message=redactor.redact(error.message),
        tool=error.tool,
        severity=error.severity,
        file=error.file,
        line=error.line,
        column=error.column,
    )


def _end_of(text: str, redactor: Redactor) -> str:
    """Return the end of an output, from the beginning of a line if it has several.

    More than that is redacted first, so that a secret that the cut would halve is recognised.
    """
    redacted = redactor.redact(text[-2 * _RECORDED :]).encode("utf-8", "replace")
    if len(redacted) <= _RECORDED:
        return redacted.decode()
    end = redacted[-_RECORDED:]
    _, newline, after = end.partition(b"\n")
    return (after if newline else end).decode("utf-8", "replace")
