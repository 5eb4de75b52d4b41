"""`ace skillbook rollback`: makes the skillbook what it was at a version."""

from __future__ import annotations

from ace.cli.console import print_json, print_text
from ace.cli.errors import DONE
from ace.cli.options import JsonFlag, SkillbookOption, YesFlag
from ace.cli.skillbooks.confirmation import ask
from ace.cli.skillbooks.history import check_version, newest_version
from ace.cli.skillbooks.opening import location_of, opened
from ace.cli.wording import counted

__all__ = ["command"]


def command(
    version: int, /, *, skillbook: SkillbookOption = None, yes: YesFlag = False, as_json: JsonFlag = False
) -> int:
    """Make the skillbook what it was at a version.

    That is a new version, so it can be taken back too.

    Args:
        version: The version to go back to; 0 is the empty beginning.
        skillbook: The skillbook; skills.db by default.
        yes: Do not ask.
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
                f"going back from version {newest} to {version} adds {counted(len(change.added), 'skill')}, "
                f"removes {len(change.removed)} and changes {len(change.changed)}",
                assume_yes=yes,
            )
            made = book.rollback(version, author="ace skillbook rollback")
        skills = len(book)
    if as_json:
        print_json(
            {
                "command": "skillbook rollback",
                "skillbook": location,
                "rolled_back_to": version,
                "version": made,
                "skills": skills,
            }
        )
    elif made == newest:
        print_text(f"{location} is at version {version} already; nothing was changed")
    else:
        print_text(
            f"{location} is as it was at version {version}, with {counted(skills, 'skill')}; that is version {made}. "
            f"`ace skillbook rollback {made - 1}` takes it back"
        )
    return DONE
