"""Opens the skillbook of a command, and keeps what the command changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ace.cli.clock import clock_from_environment
from ace.cli.errors import UsageError
from ace.cli.settings import load_settings
from ace.skillbook import Skillbook, SkillbookFileError
from ace.skillbook.book import TEXT_SUFFIXES
from ace.skillbook.stores import find_store, has_scheme, shown_location

__all__ = ["check_writable", "is_store", "location_of", "open_at", "open_or_start", "opened", "save", "text_or_stdin"]


def location_of(skillbook: str | None) -> str:
    """Return where the skillbook is: as the flag says, else as the settings say.

    Args:
        skillbook: The value of `--skillbook`.

    Raises:
        UsageError: A setting is unknown or out of range.
    """
    return load_settings({"skillbook": skillbook}).skillbook


def text_or_stdin(text: str | None) -> str | None:
    """Return a text that was given as an argument, or what standard input holds if the argument is `-`.

    Args:
        text: The argument; None if it was not given.
    """
    return sys.stdin.read().rstrip("\r\n") if text == "-" else text


def is_store(location: str) -> bool:
    """Tell whether a skillbook keeps a history.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: No store has this scheme.

    Example:
        >>> is_store("skills.db"), is_store("skills.json")
        (True, False)
    """
    try:
        return find_store(location) is not None
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def opened(location: str) -> Iterator[Skillbook]:
    """Open a skillbook that is there.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: There is none, or it cannot be read. The text says why, and what to do.
    """
    path = Path(location)
    if not has_scheme(location) and path.is_dir():
        raise UsageError(
            f"the skillbook {shown_location(location)!r} is a folder; give a file, such as {str(path / 'skills.db')!r}"
        )
    if not has_scheme(location) and not path.exists():
        raise UsageError(
            f"there is no skillbook {shown_location(location)!r}; learn one with `ace learn`, or give --skillbook"
        )
    with open_at(location) as book:
        yield book


@contextmanager
def open_or_start(location: str) -> Iterator[Skillbook]:
    """Open a skillbook to add to it, or start one there.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: It cannot be read, or cannot be there. The text says why, and what to do.
    """
    check_writable(location)
    if not has_scheme(location):
        folder = Path(location).absolute().parent
        if Path(location).is_dir():
            raise UsageError(
                f"{shown_location(location)!r} is a folder; give a file, such as {str(Path(location) / 'skills.db')!r}"
            )
        if not folder.is_dir():
            raise UsageError(f"there is no folder {str(folder)!r} for the skillbook; create it first")
    with open_at(location) as book:
        yield book


def check_writable(location: str) -> None:
    """Reject a text file, which cannot hold everything that a skillbook has.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: It is a text.
    """
    if not has_scheme(location) and Path(location).suffix.lower() in TEXT_SUFFIXES:
        raise UsageError(
            f"the skillbook {shown_location(location)!r} is a text file, which cannot be changed; "
            f"import it into a store with `ace skillbook import {shown_location(location)} --skillbook skills.db`"
        )


def save(book: Skillbook, location: str, *, author: str) -> int | None:
    """Keep the changes that were collected: in a store as one version, in a JSON file on top of its newest state.

    Args:
        book: The book.
        location: Where it was opened.
        author: Who made the changes, for the history.

    Returns:
        The version of the store; None for a JSON file.
    """
    if book.store is None:
        book.save_to_file(location, merge=True)
    else:
        book.commit(author=author)
    return book.version


@contextmanager
def open_at(location: str) -> Iterator[Skillbook]:
    """Open what is there, or start a skillbook there, without any further check.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: No store has this scheme, or it cannot be read. The text says why, and what to do.
    """
    is_store(location)  # says so where no store has the scheme
    clock = clock_from_environment()
    try:
        book = Skillbook.open(location, clock=clock)
    except SkillbookFileError as error:
        raise UsageError(f"{error}; the file was not changed: repair it, or give another one") from error
    except OSError as error:
        where = shown_location(location)
        raise UsageError(f"{where}: {error.strerror or error}; check that you may read it") from error
    with book:
        yield book
