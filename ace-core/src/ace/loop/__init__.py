"""The canonical loop of coding agents: attempts at tasks, insights from them, a gate, and a folder for each version.

The order of events:

1. `ace capture`, or an integration, runs a command with `command_run`, finds the errors in what it prints
   (`command_output`), and appends the attempt to the log of a project (`execution`, `trace_log`). `to_trace` makes it a
   standard trace, and `watcher` lets one process at a time follow the log.
2. After the reflection, `insight_steps` records what the attempt shows in the log of insights (`insights`). Only what
   enough tasks support is passed on; the rest is pending.
3. `gate_step` asks a gate whether the operations of the sample may be applied, and `artifacts` drafts the folder of the
   version that they would become.
4. When they are applied, `outcomes` reads from the store what has become of them. The insights get their status, and
   the draft becomes a folder. After a kill, the next attempt does what was missed.

`metadata` lists the keys with which these steps pass on what they know. `ace.steps` has the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.loop.command_output import errors_in
    from ace.loop.command_run import CommandRun, run_command
    from ace.loop.execution import (
        ExecutionError,
        ExecutionResult,
        ExecutionTrace,
        Outcome,
        ResultStatus,
        Severity,
        check_task_id,
    )
    from ace.loop.insights import (
        ONLINE_ELIGIBLE,
        Insight,
        InsightLog,
        InsightStatus,
        confidence,
        confidence_word,
    )
    from ace.loop.to_trace import ExecutionLogs, ExecutionToTrace, execution_to_trace
    from ace.loop.trace_log import ArchiveReport, LoggedTrace, LogProblem, TraceLog
    from ace.loop.watcher import learning_turn, running_watcher, watching

__all__ = [
    "ONLINE_ELIGIBLE",
    "ArchiveReport",
    "CommandRun",
    "ExecutionError",
    "ExecutionLogs",
    "ExecutionResult",
    "ExecutionToTrace",
    "ExecutionTrace",
    "Insight",
    "InsightLog",
    "InsightStatus",
    "LogProblem",
    "LoggedTrace",
    "Outcome",
    "ResultStatus",
    "Severity",
    "TraceLog",
    "check_task_id",
    "confidence",
    "confidence_word",
    "errors_in",
    "execution_to_trace",
    "learning_turn",
    "run_command",
    "running_watcher",
    "watching",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ONLINE_ELIGIBLE": "insights",
        "ArchiveReport": "trace_log",
        "CommandRun": "command_run",
        "ExecutionError": "execution",
        "ExecutionLogs": "to_trace",
        "ExecutionResult": "execution",
        "ExecutionToTrace": "to_trace",
        "ExecutionTrace": "execution",
        "Insight": "insights",
        "InsightLog": "insights",
        "InsightStatus": "insights",
        "LogProblem": "trace_log",
        "LoggedTrace": "trace_log",
        "Outcome": "execution",
        "ResultStatus": "execution",
        "Severity": "execution",
        "TraceLog": "trace_log",
        "check_task_id": "execution",
        "confidence": "insights",
        "confidence_word": "insights",
        "errors_in": "command_output",
        "execution_to_trace": "to_trace",
        "learning_turn": "watcher",
        "run_command": "command_run",
        "running_watcher": "watcher",
        "watching": "watcher",
    },
)
