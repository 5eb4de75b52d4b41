"""Reporting problems without causing new ones.

A hook, a callback or a step may raise an error whose own text cannot be made, and a logging handler may raise because
its terminal has gone. Neither may keep a sample from being counted, or a lane from being passed on.
"""

from __future__ import annotations

import logging

_LONGEST_VALUE = 80


def log_problem(
    logger: logging.Logger, level: int, message: str, *args: object, error: BaseException | None = None
) -> None:
    """Log a message; a handler that raises is ignored.

    Args:
        logger: The logger.
        level: Its level.
        message: The message, with `%` placeholders.
        *args: What they are replaced with.
        error: The error whose traceback belongs to the message.
    """
    try:
        logger.log(level, message, *args, exc_info=error)
    except Exception:
        # There is no other place to report to, and raising this error in the engine would lose a sample for a line of
        # text.
        return


def error_text(error: BaseException) -> str:
    """Return the type and the message of an error, such as `ValueError: no such page`."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as failure:
        return f"{name} (its message raised {type(failure).__name__})"


def value_text(value: object) -> str:
    """Return the `repr` of a value, shortened to 80 characters."""
    try:
        text = repr(value)
    except Exception as failure:
        text = f"<{type(value).__name__} whose repr raised {type(failure).__name__}>"
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
