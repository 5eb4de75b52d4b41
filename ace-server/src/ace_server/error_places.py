"""What a log says about an unexpected error: its class and where it was raised, but not its message."""

from __future__ import annotations

from typing import Final

__all__ = ["described"]

_MOST_FRAMES: Final = 6


def described(error: BaseException) -> str:
    """Return the class of an error and the places through which it came. Its message can quote a user.

    Example:
        >>> try:
        ...     int("the text of a user")
        ... except ValueError as error:
        ...     described(error).partition(" at ")[0]
        'ValueError'
    """
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' > '.join(frames[-_MOST_FRAMES:]) or '?'}"
