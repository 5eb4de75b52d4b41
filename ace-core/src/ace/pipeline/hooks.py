"""Observing a run from outside its steps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from .context import StepContext

logger = logging.getLogger(__name__)


@runtime_checkable
class PipelineHook(Protocol):
    """Watches the foreground steps of a pipeline; it cannot change the context.

    A branch and a nested pipeline count as one step. No order is promised between hooks. A hook that raises
    is logged and otherwise ignored.

    Example:
        >>> class PrintSteps:
        ...     def before_step(self, step_name, ctx):
        ...         print("->", step_name)
        ...     def after_step(self, step_name, ctx):
        ...         print("<-", step_name)
        >>> isinstance(PrintSteps(), PipelineHook)
        True
    """

    def before_step(self, step_name: str, ctx: StepContext) -> None:
        """Called before a step, with its class name and the context that it will get."""

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        """Called after a step that did not raise, with the context that it returned."""


def notify_before(hooks: Sequence[PipelineHook], step_name: str, ctx: StepContext) -> None:
    """Tell every hook that a step is about to run."""
    for hook in hooks:
        try:
            hook.before_step(step_name, ctx)
        except Exception as error:
            _log_failure(hook, "before_step", step_name, error)


def notify_after(hooks: Sequence[PipelineHook], step_name: str, ctx: StepContext) -> None:
    """Tell every hook that a step has returned."""
    for hook in hooks:
        try:
            hook.after_step(step_name, ctx)
        except Exception as error:
            _log_failure(hook, "after_step", step_name, error)


def _log_failure(hook: PipelineHook, method: str, step_name: str, error: Exception) -> None:
    name = type(hook).__name__
    logger.error("hook %s raised in %s for step %s; the run goes on", name, method, step_name, exc_info=error)
