"""Attempts at tasks as runs: the reader of the log, and the converter of attempts in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final, get_args

from ace._internal.json_fields import Record, number_in
from ace.context import ACEStepContext
from ace.logs import LogHead, Problem, Run, Source, Step
from ace.loop.execution import ExecutionResult, ExecutionTrace, Outcome
from ace.protocols.trace_converters import TraceConversionError
from ace.traces import StandardTraceDict

__all__ = ["ExecutionLogs", "ExecutionToTrace", "execution_to_trace"]

_TELLING: Final = frozenset(
    {"task_description", "bullets_consulted", "execution_results", "discovered_issues", "outcome"}
)
_FEWEST: Final = 2
_MOST_ERRORS: Final = 30
"""Feedback goes into a prompt, and a compiler can report thousands of errors."""


class ExecutionLogs:
    """Reads the log of attempts that `ace capture` writes. A run is named by its task and trace, not by its line."""

    name = "execution_trace"
    title = "Attempts at tasks"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ("insights.jsonl", "artifacts/*")
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return 0.9 if most of the first records are attempts.

        Example:
            >>> from ace.logs import live_source
            >>> record = {"bead_id": "bd-1", "outcome": "success", "execution_results": []}
            >>> ExecutionLogs().recognises(live_source(record).head)
            0.9
        """
        found = [_is_trace(record) for record in head.objects]
        return 0.9 if sum(found) * 2 > len(found) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the attempts, and what is none."""
        for record in source.records():
            try:
                yield _run(ExecutionTrace.from_record(record.value))
            except (ValueError, RecursionError) as error:
                reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
                yield source.problem(reason, record.line)


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


def execution_to_trace(trace: object) -> StandardTraceDict:
    """Return the standard trace dict of one execution trace.

    Args:
        trace: An `ExecutionTrace`, the record of a line, or the line itself.

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
    return _run(_read(trace)).to_trace()


def _run(attempt: ExecutionTrace) -> Run:
    found = [number_in(result.more, "duration_seconds") for result in attempt.execution_results]
    seconds = sum(duration for duration in found if duration is not None)
    ended = attempt.timestamp
    return Run(
        id=attempt.trace_id,
        task=attempt.task_description or f"Task {attempt.task_id}",
        steps=tuple(_step(number, result) for number, result in enumerate(attempt.execution_results, 1)),
        success={"success": True, "failure": False, "partial": None}[attempt.outcome],
        score={"success": 1.0, "failure": 0.0, "partial": None}[attempt.outcome],
        outcome_from="outcome",
        reason="\n".join([f"The outcome is {attempt.outcome}.", *_failures(attempt)]),
        names_failures=True,
        started=None if ended is None else ended - timedelta(seconds=seconds),
        ended=ended,
        skill_ids=tuple(attempt.bullets_consulted),
        place=attempt.place,
        format="execution_trace",
        metadata={
            "integration": "execution_trace",
            "task_id": attempt.task_id,
            "execution_trace_id": attempt.trace_id,
            "discovered_issues": list(attempt.discovered_issues),
            **attempt.more,
        },
    )


def _is_trace(record: Record) -> bool:
    if "bead_id" in record and record.get("outcome") in get_args(Outcome):
        return True
    return ("bead_id" in record or "task_id" in record) and len(_TELLING & record.keys()) >= _FEWEST


def _read(trace: object) -> ExecutionTrace:
    if isinstance(trace, ExecutionTrace):
        return trace
    try:
        return ExecutionTrace.from_record(json.loads(trace) if isinstance(trace, str | bytes) else trace)
    except json.JSONDecodeError as error:
        raise TraceConversionError(
            f"this is not one line of a trace log ({error}); read a log with several traces with TraceLog"
        ) from error
    except (ValueError, RecursionError) as error:
        raise TraceConversionError(str(error)) from error


def _step(number: int, result: ExecutionResult) -> Step:
    """Return a command with its status, its errors, and its unknown fields, the output last."""
    others = {name: value for name, value in result.more.items() if name != "output"}
    lines = [f"$ {result.command}", f"status: {result.status}", *map(str, result.errors)]
    lines += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in others.items()]
    lines += [f"{json.dumps(error.more, ensure_ascii=False)}" for error in result.errors if error.more]
    if "output" in result.more:
        lines.append(str(result.more["output"]))
    return Step(
        kind="result",
        speaker="tool",
        name=result.runner,
        content="\n".join(lines),
        is_error=result.status == "fail",
        place=str(number),
    )


def _failures(attempt: ExecutionTrace) -> list[str]:
    failed = [result for result in attempt.execution_results if result.status == "fail"]
    sentences = []
    for result in failed:
        texts = [str(error) for error in result.errors[:_MOST_ERRORS]]
        if len(result.errors) > len(texts):
            texts.append(f"{len(result.errors) - len(texts)} more errors")
        sentences.append(f"{result.command or result.runner} failed" + (f": {'; '.join(texts)}" if texts else "."))
    return sentences
