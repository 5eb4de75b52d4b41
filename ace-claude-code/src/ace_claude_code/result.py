"""What one run of Claude Code left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ClaudeCodeResult"]


@dataclass(frozen=True)
class ClaudeCodeResult:
    """One run of the `claude` binary, successful or not.

    Example:
        >>> result = ClaudeCodeResult(task="Fix it.", success=False, error="The run was stopped after 5 seconds.")
        >>> result.success, result.error
        (False, 'The run was stopped after 5 seconds.')
    """

    task: str
    """What was asked."""
    success: bool
    """Exit code 0, a last `result` event without an error, and no tool that was denied."""
    output: str = ""
    """The last words of the model."""
    execution_trace: str = ""
    """Thoughts, calls and their results as text."""
    returncode: int | None = None
    """The exit code; negative where a signal ended the process."""
    error: str | None = None
    """What went wrong; None if nothing did."""
    session_id: str = ""
    """With it the session can be resumed."""
    turns: int = 0
    """How many turns the model took."""
    input_tokens: int = 0
    """Cached ones included."""
    output_tokens: int = 0
    cost_usd: float = 0.0
    """The binary's own estimate, without what a resumed session had cost before."""
    duration_seconds: float = 0.0
    """From the start of the process to its end."""
    timed_out: bool = False
    """Whether it was stopped because its time was over."""
    permission_denials: tuple[Mapping[str, object], ...] = ()
    """The tool calls that were denied: `tool_name`, `tool_use_id`, `tool_input`."""
    skill_ids: tuple[str, ...] = ()
    """The skills that the model cited, in the order of their first use."""
    events: tuple[Mapping[str, object], ...] = field(default=(), repr=False)
    """All events, as the binary printed them."""
    skipped_lines: int = 0
    """How many lines of its output were not events, such as a truncated one."""
    stderr: str = field(default="", repr=False)
    """What it printed on standard error."""
