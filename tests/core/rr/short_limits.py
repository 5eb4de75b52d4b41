"""Sandboxes with time limits so short that a busy machine may not run any code within them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.rr import ExecutionResult, SandboxError, TraceSandbox

if TYPE_CHECKING:
    from pydantic_monty import MontySession

__all__ = ["ShortSandbox", "ran"]

_ATTEMPTS = 20


class ShortSandbox(TraceSandbox):
    """A sandbox that repeats the start of a session, which has the same limit as the code."""

    def _started(self) -> MontySession:
        for _ in range(_ATTEMPTS):
            try:
                return super()._started()
            except SandboxError as error:
                failed = error
        raise failed


def ran(sandbox: TraceSandbox, code: str) -> ExecutionResult:
    """Run code that needs little time, and repeat it in a new session if it reached the limit all the same."""
    for _ in range(_ATTEMPTS):
        result = sandbox.execute(code)
        if not result.session_lost:
            break
    return result
