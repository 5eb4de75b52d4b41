"""The versions of a skillbook, and the command that undoes a change."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ace.cli.console import print_text
from ace.cli.errors import UsageError
from ace.cli.skillbooks.opening import location_of
from ace.skillbook import Skillbook, shown_location

__all__ = ["check_version", "newest_version", "print_undo", "undo_command"]


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
            f"the skillbook {shown_location(location)!r} keeps no history; create a store from it with "
            f"`ace skillbook merge {shown_location(location)} --output skills.db`"
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
            f"the skillbook {shown_location(location)!r} has no version {version}; "
            f"its versions go from 0 to {newest}, and `ace skillbook log` lists them"
        )
    return version


def undo_command(location: str, version: int | None, otherwise: Sequence[str] = ()) -> str:
    """Return the command that undoes the last change, as it can be typed into a shell.

    Args:
        location: Where the skillbook was opened.
        version: The version that the change made; None for a skillbook without history.
        otherwise: What undoes the change without history: the arguments of `ace skillbook`. Nothing if nothing does.

    Returns:
        The command; an empty text if there is none.
    """
    arguments = otherwise if version is None else ["rollback", str(version - 1)]
    if not arguments:
        return ""
    where = [] if location == location_of(None) else ["--skillbook", shown_location(location)]
    return shlex.join(["ace", "skillbook", *arguments[:1], *where, *arguments[1:]])


def print_undo(location: str, version: int | None, undo: str) -> None:
    """Print the version that a change made, and the command that undoes it.

    Args:
        location: Where the skillbook was opened.
        version: The new version; None for a skillbook without history.
        undo: What `undo_command` returned.
    """
    if version is not None:
        print_text(f"{shown_location(location)} is at version {version}; `{undo}` undoes this")
    elif undo:
        print_text(f"`{undo}` undoes this")
