"""The result of one run of Claude Code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ClaudeCodeResult"]


@dataclass(frozen=True)
class ClaudeCodeResult:
    """The result of one run of the `claude` binary, successful or not.

    Example:
        >>> result = ClaudeCodeResult(task="Fix it.", success=False, error="The run was stopped after 5 seconds.")
        >>> result.success, result.error
        (False, 'The run was stopped after 5 seconds.')
    """

    task: str
    """The prompt of the task."""
    success: bool
    """Whether the exit code is 0, the last `result` event has no error, and no tool was denied."""
    output: str = ""
    """The last text of the model."""
    execution_trace: str = ""
    """Thoughts, tool calls and their results, as text."""
    returncode: int | None = None
    """The exit code; negative if a signal ended the process."""
    error: str | None = None
    """The error; None if the run succeeded."""
    session_id: str = ""
    """The id with which the session can be resumed."""
    turns: int = 0
    """The number of the model's turns."""
    input_tokens: int = 0
    """The number of input tokens, including cached ones."""
    output_tokens: int = 0
    cost_usd: float = 0.0
    """The binary's estimate of the cost, without that of earlier runs of a resumed session."""
    duration_seconds: float = 0.0
    """The duration of the process."""
    timed_out: bool = False
    """Whether the run was stopped because of its timeout."""
    permission_denials: tuple[Mapping[str, object], ...] = ()
    """The tool calls that were denied: `tool_name`, `tool_use_id`, `tool_input`."""
    skill_ids: tuple[str, ...] = ()
    """The ids of the skills that the model cited, in the order of their first citation."""
    events: tuple[Mapping[str, object], ...] = field(default=(), repr=False)
    """All events that the binary printed."""
    skipped_lines: int = 0
    """The number of lines of its output that are not events, such as truncated ones."""
    stderr: str = field(default="", repr=False)
    """Its standard error."""
