"""The log of the attempts of coding agents at the tasks of a tracker: one JSON object per line."""

from ace.trace_log.execution import (
    ExecutionError,
    ExecutionResult,
    ExecutionTrace,
    Outcome,
    ResultStatus,
    Severity,
    check_task_id,
)
from ace.trace_log.log import ArchiveReport, LoggedTrace, LogProblem, TraceLog
from ace.trace_log.output import errors_in
from ace.trace_log.running import CommandRun, run_command
from ace.trace_log.to_trace import ExecutionLogs, ExecutionToTrace, execution_to_trace
from ace.trace_log.watcher import learning_turn, running_watcher, watching

__all__ = [
    "ArchiveReport",
    "CommandRun",
    "ExecutionError",
    "ExecutionLogs",
    "ExecutionResult",
    "ExecutionToTrace",
    "ExecutionTrace",
    "LogProblem",
    "LoggedTrace",
    "Outcome",
    "ResultStatus",
    "Severity",
    "TraceLog",
    "check_task_id",
    "errors_in",
    "execution_to_trace",
    "learning_turn",
    "run_command",
    "running_watcher",
    "watching",
]
