"""`ace skillbook rollback`: restores an earlier version."""

from __future__ import annotations

from ace.cli.console import counted, print_json, print_text
from ace.cli.errors import DONE
from ace.cli.options import JsonFlag, SkillbookOption, YesFlag
from ace.cli.questions import ask
from ace.cli.skillbooks.described_history import check_version, newest_version, print_undo, undo_command
from ace.cli.skillbooks.opened_book import location_of, opened
from ace.skillbook import shown_location

__all__ = ["command"]


def command(
    version: int, /, *, skillbook: SkillbookOption = None, yes: YesFlag = False, as_json: JsonFlag = False
) -> int:
    """Restore an earlier version.

    The restored state is a new version, so a rollback can be undone too. It reverses every later change;
    `ace skillbook edit`, `remove` and `restore` change single skills.

    For example:

        ace skillbook log
        ace skillbook rollback 12

    Args:
        version: The version to restore; 0 is the empty skillbook.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    with opened(location) as book:
        newest = newest_version(book, location)
        check_version(book, location, version)
        made = newest
        if version != newest:
            change = book.diff(newest, version)
            ask(
                f"restoring version {version} of {shown_location(location)}, which is at version {newest}, will add "
                f"{counted(len(change.added), 'skill')}, remove {len(change.removed)} and change {len(change.changed)}",
                assume_yes=yes,
            )
            made = book.rollback(version, author="ace skillbook rollback")
        skills = len(book)
    undo = "" if made == newest else undo_command(location, made)
    if as_json:
        print_json(
            {
                "command": "skillbook rollback",
                "skillbook": shown_location(location),
                "rolled_back_to": version,
                "version": made,
                "skills": skills,
                "undo": undo,
            }
        )
    elif made == newest:
        print_text(f"{shown_location(location)} is already at version {version}; nothing was changed")
    else:
        print_text(f"restored version {version} of {shown_location(location)}, with {counted(skills, 'skill')}")
        print_undo(location, made, undo)
    return DONE
