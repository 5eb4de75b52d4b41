"""Reads objects and texts that other code made: attributes may raise, and texts may be impossible to send or store."""

from __future__ import annotations

from typing import Any

__all__ = ["attribute_of", "encodable"]


def attribute_of(value: object, name: str, default: object = None) -> Any:  # whatever the object holds
    """Return an attribute of a foreign object, or the default if it cannot be had.

    Args:
        value: Any object.
        name: The name of the attribute.
        default: What is returned if there is none, or if asking for it raises.

    Example:
        >>> class Wrapper:
        ...     def __getattr__(self, name):
        ...         raise KeyError(name)
        >>> attribute_of(Wrapper(), "question", "none")
        'none'
    """
    try:
        return getattr(value, name, default)
    except Exception:
        # A `__getattr__` may raise anything; wrappers around a dict raise KeyError.
        return default


def encodable(text: str) -> str:
    r"""Return the text with each lone surrogate, which UTF-8 cannot hold, made visible as `\ud800`.

    Args:
        text: Any text.

    Example:
        >>> encodable("café \ud800")
        'café \\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
