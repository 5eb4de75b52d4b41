"""Typed access to JSON objects of which nobody promises what is in them."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Record", "list_in", "mapping_in", "number_in", "text_in"]

Record = Mapping[str, object]
"""One JSON object, such as an event of a session."""


def text_in(record: Record, *names: str) -> str:
    """Return the first field that holds a text, or an empty text.

    Args:
        record: The object.
        *names: The fields to look into, in order.

    Example:
        >>> text_in({"sessionId": "a"}, "id", "sessionId")
        'a'
    """
    return next((value for name in names if isinstance(value := record.get(name), str) and value), "")


def mapping_in(record: Record, name: str) -> Record:
    """Return a field that holds an object, or an empty one.

    Args:
        record: The object.
        name: The field.
    """
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}


def list_in(record: Record, name: str) -> list[object]:
    """Return a field that holds a list, or an empty one.

    Args:
        record: The object.
        name: The field.
    """
    value = record.get(name)
    return value if isinstance(value, list) else []


def number_in(record: Record, name: str) -> float | None:
    """Return a field that holds a number, or None.

    Args:
        record: The object.
        name: The field.
    """
    value = record.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
