"""The skillbooks that a person decides about in a project: their own one, and those that plugins keep there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ace.cli.console import note
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.skillbooks.opened_book import location_of, opened
from ace.cli.skillbooks.selection import bare_id
from ace.plugins import KeptSkillbook, kept_skillbooks
from ace.skillbook.locations import has_scheme, shown_location

__all__ = ["owner_of", "published", "skillbooks_here"]


def skillbooks_here(skillbook: str | None) -> list[KeptSkillbook]:
    """Return the skillbook that was named; without one, that of the settings and those that plugins keep here.

    Args:
        skillbook: The value of the argument.
    """
    location, kept = location_of(skillbook), kept_skillbooks(Path.cwd())
    named = [book for book in kept if book.location == location] or [KeptSkillbook(location, "", lambda: ())]
    if skillbook is not None:
        return named
    others = [book for book in kept if book.location != location]
    return [*named, *others] if has_scheme(location) or Path(location).exists() or not others else others


def owner_of(books: Sequence[KeptSkillbook], ids: Sequence[str]) -> KeptSkillbook:
    """Return the skillbook that has some skills; the first one if none has.

    Args:
        books: The skillbooks.
        ids: The ids of the skills.

    Raises:
        UsageError: Several skillbooks have them.
    """
    if len(books) == 1:
        return books[0]
    owners = []
    for book in books:
        with opened(book.location) as skills:
            if any(bare_id(id) in skills for id in ids):
                owners.append(book)
    if len(owners) > 1:
        where = " or ".join(shown_location(book.location) for book in owners)
        raise UsageError(f"these skills are in several skillbooks, so nothing was changed; name one of them: {where}")
    return (owners or books)[0]


def published(book: KeptSkillbook) -> int:
    """Write the skills where agents read them, after decisions about them, and return the exit code.

    Args:
        book: The skillbook.
    """
    try:
        for path in book.publish():
            note(f"written: {path}")
    except (OSError, ValueError) as error:
        note(f"ace: the decision is saved, but agents cannot be shown it yet: {error}")
        return WITH_FAILURES
    return DONE
