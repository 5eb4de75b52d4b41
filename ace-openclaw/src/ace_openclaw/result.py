"""What one run of `openclaw agent exec` left behind."""

from __future__ import annotations

from dataclasses import dataclass, field

from ace_openclaw.reading.session import StoredSession

__all__ = ["OpenClawResult"]


@dataclass(frozen=True)
class OpenClawResult:
    """One run of `openclaw agent exec`, successful or not.

    Example:
        >>> result = OpenClawResult(task="Fix it.", success=False, error="The run took longer than 5 seconds.")
        >>> result.success, result.error
        (False, 'The run took longer than 5 seconds.')
    """

    task: str
    """What was asked."""
    success: bool
    """Exit code 0, and OpenClaw says that it went well."""
    output: str = ""
    """The final answer."""
    error: str | None = None
    """What went wrong; None if nothing did."""
    returncode: int | None = None
    """The exit code; negative where a signal ended the process."""
    timed_out: bool = False
    """Whether it was stopped because its time was over."""
    session: StoredSession = field(default=StoredSession((), ()), repr=False)
    """The session that the run left; empty if it left none."""
    duration_seconds: float = 0.0
    """From the start of the process to its end."""
    stderr: str = field(default="", repr=False)
    """What it printed on standard error."""
