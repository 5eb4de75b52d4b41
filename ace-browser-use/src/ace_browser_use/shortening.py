"""Shortens long texts of pages and errors, with a mark at the cut."""

from __future__ import annotations

__all__ = ["shortened"]


def shortened(text: str, limit: int) -> str:
    """Cut the middle out of a text that is longer than the limit, and put a mark with the number of characters there.

    Args:
        text: The text to shorten.
        limit: The number of characters to keep.

    Example:
        >>> shortened("abcdefgh", 4)
        'ab [... 4 characters cut ...] gh'
    """
    if len(text) <= limit:
        return text
    head, tail = (limit + 1) // 2, limit // 2
    return f"{text[:head]} [... {len(text) - limit} characters cut ...] {text[len(text) - tail :]}"
