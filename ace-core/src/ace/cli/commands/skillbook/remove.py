"""`ace skillbook remove`: hides skills from every agent."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, note, visible
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption, YesFlag
from ace.cli.questions import ask, can_ask
from ace.cli.skillbooks.described_history import undo_command
from ace.cli.skillbooks.opened_book import check_writable, location_of, opened, save
from ace.cli.skillbooks.selection import find_active
from ace.cli.skillbooks.skill_output import print_changes
from ace.skillbook.locations import shown_location

__all__ = ["command"]


def command(
    *ids: Annotated[str, Parameter(required=True)],
    skillbook: SkillbookOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Remove skills, so that agents no longer see them.

    A removed skill stays in the file, with its counters and sources: `ace skillbook show --all` lists it, and
    `ace skillbook restore` brings it back. In a .db skillbook, the change creates a new version. The command that
    undoes it is printed. If one of the ids is unknown or that of a pinned skill, no skill is removed.

    For example:

        ace skillbook remove maths-00001
        ace skillbook remove maths-00001 maths-00004 --yes

    Args:
        ids: The ids of the skills.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    check_writable(location)
    with opened(location) as book:
        skills = list(dict.fromkeys(find_active(book, location, id) for id in ids))
        if pinned := [skill.id for skill in skills if skill.pinned]:
            raise UsageError(
                f"the skill {pinned[0]!r} is pinned, so nothing was removed; "
                f"`ace skillbook unpin {pinned[0]}` unpins it"
            )
        if not yes and can_ask():
            for skill in skills:
                note(f"[{skill.id}] {visible(' '.join(skill.content.split()))}")
        ask(f"{counted(len(skills), 'skill')} will be removed from {shown_location(location)}", assume_yes=yes)
        with book.deferred_commits():
            for skill in skills:
                book.remove_skill(skill.id, soft=True)
            version = save(book, location, author="ace skillbook remove")
    undo = undo_command(location, version, ["restore", *(skill.id for skill in skills)])
    changes = [("removed", skill) for skill in skills]
    print_changes("skillbook remove", changes, location, version, undo, as_json=as_json)
    return DONE
