"""The type of JSON values, and reading objects of other programs, which have no guaranteed structure."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "JsonValue",
    "Record",
    "list_in",
    "mapping_in",
    "number_in",
    "text_in",
]

JsonValue = str | int | float | None | list["JsonValue"] | dict[str, "JsonValue"]
"""A JSON value. (A bool is an int.)"""

Record = Mapping[str, object]
"""One JSON object, such as a line of a stored session."""


def text_in(record: Record, *names: str) -> str:
    """Return the first field that holds a text, or an empty text.

    Args:
        record: The object.
        *names: The fields to look into, in order.

    Example:
        >>> text_in({"sessionId": "a"}, "session_id", "sessionId")
        'a'
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def mapping_in(record: Record, *names: str) -> Record:
    """Return the first field that holds an object, or an empty one.

    Args:
        record: The object.
        *names: The fields to look into, in order.
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, (dict, Mapping)):  # a plain check answers sooner than that of the abstract class
            return value
    return {}


def list_in(record: Record, *names: str) -> list[object]:
    """Return the first field that holds a list, or an empty one.

    Args:
        record: The object.
        *names: The fields to look into, in order.
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, list):
            return value
    return []


def number_in(record: Record, *names: str) -> float | None:
    """Return the first field that holds a number, or None.

    Args:
        record: The object.
        *names: The fields to look into, in order.
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return None
