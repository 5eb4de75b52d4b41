"""The built-in converter `execution_trace`: lines of the trace log to the standard trace dict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

from ace._internal.json_fields import Record, head_records, number_in, trace_head
from ace.context import ACEStepContext
from ace.protocols.trace_converters import TraceConversionError
from ace.trace_log.execution import ExecutionResult, ExecutionTrace, Outcome
from ace.traces import StandardTraceDict, TraceStep, steps_as_text, trace_step

__all__ = ["ExecutionToTrace", "execution_to_trace", "parts_of", "place_of", "recognise"]

_TELLING: Final = frozenset(
    {"task_description", "bullets_consulted", "execution_results", "discovered_issues", "outcome"}
)
_FEWEST: Final = 2
_MOST_ERRORS: Final = 30
"""Feedback goes into a prompt, and a compiler can report thousands of errors."""


class ExecutionToTrace:
    """Converts the execution trace in `ctx.trace` to the standard trace dict."""

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace dict.

        Raises:
            TraceConversionError: See `execution_to_trace`.
        """
        return ctx.replace(trace=execution_to_trace(ctx.trace))


def recognise(record: object) -> float:
    """Return the probability that an object, or the beginning of a file, is a trace of the log, from 0 to 1.

    Args:
        record: Any object; for a file, its first bytes.

    Example:
        >>> recognise({"bead_id": "bd-1", "outcome": "success", "execution_results": []}), recognise({"task": "2+2?"})
        (0.9, 0.0)
        >>> recognise(b'{"bead_id": "bd-1", "outcome": "success", "execution_results": []}\\n')
        0.9
    """
    if isinstance(record, ExecutionTrace):
        return 1.0
    head = trace_head(record)
    if head is None:
        return 0.9 if isinstance(record, Mapping) and _is_trace(record) else 0.0
    found = [_is_trace(entry) for entry in head_records(head)]
    return 0.9 if sum(found) * 2 > len(found) else 0.0


def parts_of(value: object) -> list[tuple[str | None, object]]:
    """Return the traces in a line of the log, or in a JSON list of such records; each is a trace of its own.

    Args:
        value: A JSON value. What is not a trace is returned as a `ValueError` that says why.

    Example:
        >>> parts_of([{"bead_id": "bd-1", "outcome": "success"}, 7])
        [(None, {'bead_id': 'bd-1', 'outcome': 'success'}), (None, ValueError('a trace must be a JSON object, got 7'))]
    """
    return [(None, _checked(item)) for item in (value if isinstance(value, list) else [value])]


def place_of(record: object) -> str:
    """Return the place of a trace in runs and reports, which does not depend on its line: `TASK/TRACE_ID`.

    Args:
        record: A record that `parts_of` returned.

    Example:
        >>> place_of({"bead_id": "bd-1", "trace_id": "t7", "outcome": "success"})
        'bd-1/t7'
    """
    return ExecutionTrace.from_record(record).place


def execution_to_trace(trace: object) -> StandardTraceDict:
    """Return the standard trace dict of one execution trace.

    Args:
        trace: An `ExecutionTrace`, the record of a line, the line itself, or the path of a file with a single line.

    Raises:
        TraceConversionError: It is not one execution trace.

    Example:
        >>> failed = {"runner": "tsc", "command": "tsc -p .", "status": "fail", "errors": [
        ...     {"tool": "tsc", "severity": "error", "message": "Cannot find module './b'", "file": "a.ts", "line": 1}]}
        >>> trace = execution_to_trace({"bead_id": "bd-1", "task_description": "Fix the imports",
        ...     "execution_results": [failed], "outcome": "failure"})
        >>> trace["question"], trace["success"]
        ('Fix the imports', False)
        >>> print(trace["feedback"])
        The outcome is failure.
        tsc -p . failed: a.ts:1: error: Cannot find module './b' (tsc)
    """
    read = _read(trace)
    steps = [_step(number, result) for number, result in enumerate(read.execution_results, 1)]
    found = [number_in(result.more, "duration_seconds") for result in read.execution_results]
    durations = [duration for duration in found if duration is not None]
    return StandardTraceDict(
        schema=1,
        question=read.task_description or f"Task {read.task_id}",
        context="",
        reasoning=steps_as_text(steps),
        answer="",
        success={"success": True, "failure": False, "partial": None}[read.outcome],
        skill_ids=list(read.bullets_consulted),
        feedback="\n".join([f"The outcome is {read.outcome}.", *_failures(read)]),
        ground_truth=None,
        steps=steps,
        metrics={"duration_seconds": sum(durations)} if durations else {},
        metadata={
            "integration": "execution_trace",
            "task_id": read.task_id,
            "execution_trace_id": read.trace_id,
            "timestamp": None if read.timestamp is None else read.timestamp.isoformat(),
            "discovered_issues": list(read.discovered_issues),
            **read.more,
        },
    )


def _is_trace(record: Record) -> bool:
    if "bead_id" in record and record.get("outcome") in get_args(Outcome):
        return True
    return ("bead_id" in record or "task_id" in record) and len(_TELLING & record.keys()) >= _FEWEST


def _checked(value: object) -> object:
    try:
        ExecutionTrace.from_record(value)
    except ValueError as error:
        return error
    except RecursionError:
        return ValueError("nested too deeply")
    return value


def _read(trace: object) -> ExecutionTrace:
    if isinstance(trace, ExecutionTrace):
        return trace
    try:
        if isinstance(trace, Path):
            trace = trace.read_bytes()
        return ExecutionTrace.from_record(json.loads(trace) if isinstance(trace, str | bytes) else trace)
    except json.JSONDecodeError as error:
        raise TraceConversionError(
            f"this is not one line of a trace log ({error}); read a log with several traces with TraceLog"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise TraceConversionError(str(error)) from error


def _step(number: int, result: ExecutionResult) -> TraceStep:
    """Return a command with its status, its errors, and its unknown fields, the output last."""
    others = {name: value for name, value in result.more.items() if name != "output"}
    lines = [f"$ {result.command}", f"status: {result.status}", *map(str, result.errors)]
    lines += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in others.items()]
    lines += [f"{json.dumps(error.more, ensure_ascii=False)}" for error in result.errors if error.more]
    if "output" in result.more:
        lines.append(str(result.more["output"]))
    return trace_step("result", result.runner, "\n".join(lines), str(number), is_error=result.status == "fail")


def _failures(trace: ExecutionTrace) -> list[str]:
    failed = [result for result in trace.execution_results if result.status == "fail"]
    sentences = []
    for result in failed:
        texts = [str(error) for error in result.errors[:_MOST_ERRORS]]
        if len(result.errors) > len(texts):
            texts.append(f"{len(result.errors) - len(texts)} more errors")
        sentences.append(f"{result.command or result.runner} failed" + (f": {'; '.join(texts)}" if texts else "."))
    return sentences
