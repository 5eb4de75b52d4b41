"""`ace capture`: appends one attempt at a task to the trace log."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import note, print_text, result_stream
from ace.cli.errors import DONE, WITH_FAILURES, UsageError, print_error
from ace.cli.inputs import STANDARD_INPUT, task_ids
from ace.cli.options import TASK_OPTION, Flag
from ace.cli.settings import clock_from_environment, load_settings
from ace.loop import CommandRun, ExecutionResult, ExecutionTrace, Outcome, TraceLog, check_task_id, run_command
from ace.redaction import Redactor

__all__ = ["command"]

_TASK_VARIABLES = ("ACE_TASK", "BEADS_ID")


def command(
    *command_line: str,
    task: Annotated[str | None, Parameter(name=TASK_OPTION)] = None,
    outcome: Outcome | None = None,
    description: Annotated[str, Parameter(show_default=False)] = "",
    exec_results: Annotated[str | None, Parameter(name="--exec", allow_leading_hyphen=True)] = None,
    skills: Annotated[str, Parameter(show_default=False)] = "",
    discovered: Annotated[str, Parameter(show_default=False)] = "",
    run: Annotated[bool, Flag] = False,
    logs: str | None = None,
) -> int:
    """Append one attempt at a task to the trace log, and print the id of the trace.

    With --run, the command after -- is run, and its output is forwarded. Its exit code, duration, errors and the end of
    its output are recorded, with secrets and personal data redacted. The exit code determines the outcome, and
    ace capture exits with the same code. If the command is interrupted, nothing is recorded.

    For example:

        ace capture --task bd-42 --run -- pytest -q
        ace capture --task bd-42 --outcome success --description "Fix the imports" --skills typescript-00001

    Args:
        command_line: The command to run, with --run.
        task: The id of the task. [env: ACE_TASK, BEADS_ID]
        outcome: How the attempt ended; required without --run, which determines it.
        description: The description of the task.
        exec_results: A file with a JSON list of execution results; - reads standard input.
        skills: The ids of the skills that were consulted, separated by commas.
        discovered: The ids of the tasks that were discovered, separated by commas.
        run: Run the command that follows --, and record its result.
        logs: The folder of the trace log. [env: ACE_LOGS] [default: logs]
    """
    _check_command(command_line, outcome, run=run)
    task_id = _task_id(task)
    found = task_ids(_ids_in(discovered), "--discovered")
    settings = load_settings({"logs": logs})
    clock = clock_from_environment()
    redactor = Redactor(allow=settings.learning.allow)
    results = [] if exec_results is None else _results_in(exec_results, redactor)
    ran = _run(command_line, redactor) if run else None
    code = DONE if ran is None else ran.exit_code
    trace = ExecutionTrace(
        task_id=task_id,
        outcome=outcome or ("failure" if code else "success"),
        task_description=redactor.redact(description),
        execution_results=results if ran is None else [*results, ran.result],
        bullets_consulted=_ids_in(skills),
        discovered_issues=found,
        timestamp=clock(),
    )
    log = TraceLog(settings.trace_log)
    try:
        log.append(trace)
    except OSError as error:
        print_error(f"{log.path}: {error.strerror or error}; the trace of {task_id} was not captured")
        return code or WITH_FAILURES
    if ran is None:
        print_text(trace.trace_id)
    else:
        note(f"ace: captured {trace.place} ({trace.outcome}) in {log.path}")
    return code


def _check_command(command_line: Sequence[str], outcome: Outcome | None, *, run: bool) -> None:
    if command_line and not run:
        raise UsageError(f"unexpected argument {command_line[0]!r}; a command to run is given as --run -- COMMAND")
    if run and not command_line:
        raise UsageError("--run needs a command: ace capture --run -- COMMAND")
    if run and outcome is not None:
        raise UsageError("--outcome and --run exclude each other; with --run, the outcome is that of the command")
    if not run and outcome is None:
        raise UsageError("give --outcome success, failure or partial, or --run -- COMMAND")


def _task_id(option: str | None) -> str:
    if option is not None:
        return _checked_id(option, "--task")
    for variable in _TASK_VARIABLES:
        if os.environ.get(variable):
            return _checked_id(os.environ[variable], f"the variable {variable}")
    raise UsageError("no task: give --task ID, or set the variable ACE_TASK or BEADS_ID")


def _checked_id(value: str, source: str) -> str:
    try:
        return check_task_id(value)
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from error


def _ids_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _results_in(path: str, redactor: Redactor) -> list[ExecutionResult]:
    """Return the execution results in a file or on standard input, redacted."""
    name = "standard input" if path == STANDARD_INPUT else path
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()
        found = json.loads(data)
    except OSError as error:
        raise UsageError(f"--exec: {name}: {error.strerror or error}") from error
    except RecursionError as error:
        raise UsageError(f"--exec: {name} is nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"--exec: {name} is not JSON: {error}") from error
    if not isinstance(found, list):
        raise UsageError(f"--exec: {name} must be a JSON list of execution results, not a {type(found).__name__}")
    results = []
    for number, record in enumerate(found, 1):
        try:
            results.append(ExecutionResult.from_record(redactor.redact_value(record)))
        except ValueError as error:
            raise UsageError(f"--exec: {name}, result {number}: {error}") from error
        except RecursionError as error:
            raise UsageError(f"--exec: {name}, result {number} is nested too deeply") from error
    return results


def _run(command_line: Sequence[str], redactor: Redactor) -> CommandRun:
    try:
        return run_command(command_line, redactor=redactor, stdout=result_stream().buffer)
    except OSError as error:
        shown = shlex.join(command_line)
        raise UsageError(f"cannot run {shown}: {error.strerror or error}; nothing was captured") from error
