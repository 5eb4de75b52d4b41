"""A runner for plugins that give the two steps and no runner of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.pipeline import StepProtocol
    from ace.runners import IntegrationRunner

__all__ = ["composed_runner"]


_lock = threading.Lock()


def composed_runner(
    name: str, execute_step: Callable[..., StepProtocol[Any]], to_trace: Callable[[], StepProtocol[Any]]
) -> type[IntegrationRunner]:
    """Return the runner class of a plugin; the same one each time.

    Args:
        name: The name of the plugin.
        execute_step: The class of its execute step; it gets what `from_roles` is given beside the roles.
        to_trace: The class of its trace converter.
    """
    with _lock:  # else two threads could be given two classes
        return _composed(name, execute_step, to_trace)


@cache
def _composed(
    name: str, execute_step: Callable[..., StepProtocol[Any]], to_trace: Callable[[], StepProtocol[Any]]
) -> type[IntegrationRunner]:
    from ace.runners import IntegrationRunner

    class ComposedRunner(IntegrationRunner):
        integration = name

    ComposedRunner.execute_step = staticmethod(execute_step)
    ComposedRunner.to_trace = staticmethod(to_trace)
    ComposedRunner.__name__ = ComposedRunner.__qualname__ = f"{name.title().replace('_', '')}Runner"
    ComposedRunner.__doc__ = f"Runs tasks with the plugin {name!r} and learns from them."
    return ComposedRunner
