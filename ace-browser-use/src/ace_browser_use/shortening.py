"""Long texts of pages and errors, cut where everybody sees it."""

from __future__ import annotations

__all__ = ["shortened"]


def shortened(text: str, limit: int) -> str:
    """Return a text with its middle cut out if it is longer than the limit; a mark says how much is gone.

    Args:
        text: The text.
        limit: How many characters of it to keep.

    Example:
        >>> shortened("abcdefgh", 4)
        'ab [... 4 characters cut ...] gh'
    """
    if len(text) <= limit:
        return text
    head, tail = (limit + 1) // 2, limit // 2
    return f"{text[:head]} [... {len(text) - limit} characters cut ...] {text[len(text) - tail :]}"
