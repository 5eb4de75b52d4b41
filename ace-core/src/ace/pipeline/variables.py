"""Carrying context variables from thread to thread along with a sample."""

from __future__ import annotations

import contextvars


def adopt(context: contextvars.Context) -> None:
    """Set here what was set in another context, in which a part of the sample's work ran meanwhile.

    A context cannot be lent instead: it can be entered once at a time, and an event loop enters that of a task
    whenever it likes.
    """
    current = contextvars.copy_context()
    for variable, value in context.items():
        if current.get(variable, context) is not value:
            variable.set(value)
