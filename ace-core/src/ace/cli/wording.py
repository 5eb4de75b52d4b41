"""Numbers with the nouns that go with them."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where there is not exactly one.

    Args:
        number: How many.
        noun: In the singular; its plural ends in s.

    Example:
        >>> counted(1, "skill"), counted(2, "new skill")
        ('1 skill', '2 new skills')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
