"""Checks the form of a trace that a client sends.

`json.loads` does not let another thread run before it has ended, which takes a quarter of a second for a trace with as
many values as are allowed. So this is done in a process of its own, and imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
from typing import Final, NamedTuple

__all__ = ["FormProblem", "form_problem", "form_problem_apart"]

_DEEPEST: Final = 200
"""How deep a trace may be nested."""
_MOST_VALUES: Final = 200_000
"""How many objects, lists, texts and numbers a trace may have. Each takes far more memory and time to read than its few
characters."""
_MOST_MARKS: Final = 5 * _MOST_VALUES
"""How many brackets and commas its text may have, also inside of strings, so that no other text is read at all."""
_NICE: Final = 10


class FormProblem(NamedTuple):
    """Why a trace is not accepted."""

    status: int
    """The HTTP status."""
    message: str
    """The sentence for the client."""


_TOO_MANY_VALUES: Final = FormProblem(413, f"A trace must not have more than {_MOST_VALUES:,} values.")
_TOO_DEEP: Final = FormProblem(400, f"A trace must not be nested deeper than {_DEEPEST} levels.")


def form_problem(body: bytes) -> FormProblem | None:
    """Return why a body is not accepted as a trace; None if it is a JSON object or array within the limits.

    Args:
        body: What the client sent.

    Example:
        >>> form_problem(b'{"question": "Why?"}') is None
        True
        >>> form_problem(b"{}").message
        'A trace must be a JSON object or array that is not empty.'
    """
    if sum(body.count(mark) for mark in (b"{", b"[", b",")) > _MOST_MARKS:
        return _TOO_MANY_VALUES
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return FormProblem(400, "The body is not JSON.")
    if not isinstance(value, dict | list) or not value:
        return FormProblem(400, "A trace must be a JSON object or array that is not empty.")
    return _size_problem(value)


def form_problem_apart(body: bytes) -> FormProblem | None:
    """Return what `form_problem` does, in a process of its own, which yields to those that answer questions."""
    os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    return form_problem(body)


def _size_problem(value: object) -> FormProblem | None:
    level, depth, values = [value], 0, 0
    while level:
        children = [
            item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)
        ]
        level = [child for group in children for child in group]
        depth += 1
        values += len(level)
        if values > _MOST_VALUES:
            return _TOO_MANY_VALUES
        if depth > _DEEPEST:
            return _TOO_DEEP
    return None
