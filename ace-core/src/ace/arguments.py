"""Checks what callers give, and names the argument when it makes no sense."""

from __future__ import annotations

import os

__all__ = ["file_path", "instance_of", "shown", "whole_number", "with_method"]


def whole_number(name: str, value: object, *, least: int = 1, of: str = "") -> int:
    """Return the value, which must be a whole number.

    Args:
        name: The name of the argument.
        value: What was given.
        least: The smallest number that makes sense.
        of: What is counted.

    Raises:
        ValueError: It is something else, or too small.

    Example:
        >>> whole_number("lag", -1, least=0, of="samples")
        Traceback (most recent call last):
        ...
        ValueError: lag is a number of samples from 0, not -1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is a number{f' of {of}' if of else ''} from {least}, not {shown(value)}")
    return value


def instance_of(name: str, value: object, kind: type, *, advice: str = "") -> None:
    """Refuse a value of another class.

    Args:
        name: The name of the argument.
        value: What was given.
        kind: The class that it must have.
        advice: What to do instead.

    Raises:
        TypeError: It has another class.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is a {kind.__name__}, not {shown(value)}{f'; {advice}' if advice else ''}")


def file_path(name: str, value: object, *, advice: str = "") -> None:
    """Refuse what is no path.

    Args:
        name: The name of the argument.
        value: What was given.
        advice: What to do instead.

    Raises:
        TypeError: It is neither a text nor a path.

    Example:
        >>> file_path("checkpoint_dir", 5)
        Traceback (most recent call last):
        ...
        TypeError: checkpoint_dir is a path, not 5
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is a path, not {shown(value)}{f'; {advice}' if advice else ''}")


def with_method(name: str, value: object, method: str, *, advice: str = "") -> None:
    """Refuse a value that lacks the method which it is used for.

    Args:
        name: The name of the argument.
        value: What was given.
        method: The name of the method.
        advice: What to do instead.

    Raises:
        TypeError: It has no such method, or is a class.

    Example:
        >>> with_method("reflector", None, "reflect")
        Traceback (most recent call last):
        ...
        TypeError: reflector is an object with a method reflect(), not None
    """
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        advice = f"make one: {value.__name__}(...)" if isinstance(value, type) and hasattr(value, method) else advice
        raise TypeError(
            f"{name} is an object with a method {method}(), not {shown(value)}{f'; {advice}' if advice else ''}"
        )


def shown(value: object) -> str:
    """Return a value for an error text, cut to a readable length.

    Args:
        value: What was given.

    Example:
        >>> shown("x" * 100)[-10:]
        'xxxxxxx...'
    """
    try:
        text = repr(value)
    except Exception as error:  # a number of thousands of digits, or whatever somebody's object raises
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= 60 else f"{text[:57]}..."
