"""`ace undo`: undoes the acceptance or rejection of skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.errors import UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import newest_version
from ace.cli.skillbooks.kept import owner_of, published, skillbooks_here
from ace.cli.skillbooks.landing import landing_of
from ace.cli.skillbooks.opened_book import opened
from ace.cli.skillbooks.selection import find_skill
from ace.cli.skillbooks.skill_output import print_changes
from ace.plugins import kept_skillbooks

__all__ = ["command"]


def command(
    *ids: Annotated[str, Parameter(required=True)], skillbook: SkillbookOption = None, as_json: JsonFlag = False
) -> int:
    """Undo the last acceptance or rejection of skills.

    A skill gets the status and the reason that it had before: an accepted lesson is pending again, and agents are no
    longer shown it. The file of the setting `block`, such as AGENTS.md, gets back what the acceptance replaced, byte
    for byte, unless a run has written its managed block since; then the skills are removed from the block. Later
    changes to the skill are kept. This requires a .db skillbook, and creates a new version of it.

    For example:

        ace review --accept maths-00001
        ace undo maths-00001

    Args:
        ids: The ids of the skills. If one of them was not accepted or rejected, none is changed.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    kept = owner_of(skillbooks_here(skillbook), ids)
    location = kept.location
    landing = landing_of(location)
    with opened(location) as book:
        newest_version(book, location)  # raises the error for a skillbook without a history
        skills = [find_skill(book, location, id) for id in ids]
        with book.deferred_commits(author="ace undo"):
            try:
                undone = book.undo_decisions([skill.id for skill in skills])
            except ValueError as error:
                raise UsageError(f"{error}, so nothing was changed") from error
        version = book.version
        if landing is not None:
            landing.undone(book, [skill.id for skill in undone])
    for kept in kept_skillbooks(Path.cwd()):
        if kept.location == location:
            kept.publish()
    changes = [("pending again" if skill.is_pending else skill.status, skill) for skill in undone]
    print_changes("undo", changes, location, version, "", as_json=as_json)
    return published(kept)
