"""Plain data as text."""

from __future__ import annotations

import json
from typing import Final

from ace.implementations.trace_reading.plain import Plain

__all__ = ["EMPTY", "as_text", "parsed_json"]


EMPTY: Final[tuple[Plain, ...]] = (None, "", [], {})
"""What holds nothing. Zero and false do."""


class _RepeatedKeyError(ValueError):
    pass


def as_text(value: Plain) -> str:
    """Return a text as it is and everything else as JSON; nothing is an empty text.

    Args:
        value: Plain data.

    Example:
        >>> as_text("Paris"), as_text(None), as_text([1, 2])
        ('Paris', '', '[1, 2]')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=None if _is_flat(value) else 1)


def parsed_json(text: str) -> object | None:
    """Return the object or list that a text holds as JSON or as lines of JSON; None if it does not.

    Args:
        text: Any text.
    """
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        return _loaded(stripped)
    except (ValueError, RecursionError):
        return _lines_of_json(stripped)


def _lines_of_json(text: str) -> object | None:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return None
    try:
        return [_loaded(line) for line in lines]
    except (ValueError, RecursionError):
        return None


def _loaded(text: str) -> object:
    return json.loads(text, object_pairs_hook=_without_repeated_keys)


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A dict would drop the first of two equal keys; the text keeps both."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _RepeatedKeyError
    return fields


def _is_flat(value: Plain) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(item, dict | list) and item for item in items)
