"""Asks a skillbook for its history, and says what to do where there is none."""

from __future__ import annotations

from ace.cli.errors import UsageError
from ace.skillbook import Skillbook

__all__ = ["check_version", "newest_version"]


def newest_version(book: Skillbook, location: str) -> int:
    """Return the newest version of a store.

    Args:
        book: The book.
        location: Where it was opened.

    Raises:
        UsageError: The book keeps no history.
    """
    if book.version is None:
        raise UsageError(
            f"the skillbook {location!r} keeps no history; a store does: "
            f"`ace skillbook merge {location} --output skills.db` makes one of it"
        )
    return book.version


def check_version(book: Skillbook, location: str, version: int) -> int:
    """Return a version that the history of a book has.

    Args:
        book: The book.
        location: Where it was opened.
        version: The number that the user gave.

    Raises:
        UsageError: There is no such version, or no history.
    """
    newest = newest_version(book, location)
    if not 0 <= version <= newest:
        raise UsageError(
            f"the skillbook {location!r} has no version {version}; its history goes from 0 to {newest}, "
            "and `ace skillbook log` lists it"
        )
    return version
