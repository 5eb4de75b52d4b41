"""`ace skillbook pin` and `ace skillbook unpin`: skills that come first and that only the user removes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from ace.cli.errors import DONE
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import undo_command
from ace.cli.skillbooks.opened_book import check_writable, location_of, opened, save
from ace.cli.skillbooks.selection import find_active
from ace.cli.skillbooks.skill_output import print_changes

__all__ = ["pin", "unpin"]

SkillIds = Annotated[str, Parameter(required=True)]


def pin(*ids: SkillIds, skillbook: SkillbookOption = None, as_json: JsonFlag = False) -> int:
    """Pin skills: they come first in every prompt, even if only a few skills fit.

    Learning, deduplication and pruning neither rewrite nor remove a pinned skill. `ace skillbook edit` changes it, and
    `ace skillbook remove` removes it once it is unpinned. In a .db skillbook, the change creates a new version. The
    command that undoes it is printed. If one of the ids is unknown, no skill is pinned.

    For example:

        ace skillbook pin maths-00001
        ace skillbook pin maths-00001 maths-00004

    Args:
        ids: The ids of the skills.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    return _set("pin", ids, skillbook, pinned=True, as_json=as_json)


def unpin(*ids: SkillIds, skillbook: SkillbookOption = None, as_json: JsonFlag = False) -> int:
    """Unpin skills, so that they are chosen, changed and removed like all others.

    For example:

        ace skillbook unpin maths-00001

    Args:
        ids: The ids of the skills.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    return _set("unpin", ids, skillbook, pinned=False, as_json=as_json)


def _set(name: str, ids: Sequence[str], skillbook: str | None, *, pinned: bool, as_json: bool) -> int:
    location = location_of(skillbook)
    check_writable(location)
    with opened(location) as book:
        skills = list(dict.fromkeys(find_active(book, location, id) for id in ids))
        changed = [skill.id for skill in skills if skill.pinned != pinned]
        version = book.version
        if changed:
            with book.deferred_commits():
                for skill_id in changed:
                    book.update_skill(skill_id, pinned=pinned)
                version = save(book, location, author=f"ace skillbook {name}")
        skills = [find_active(book, location, skill.id) for skill in skills]
    undo = undo_command(location, version, ["unpin" if pinned else "pin", *changed]) if changed else ""
    changes = [(f"{name}ned" if skill.id in changed else f"already {name}ned", skill) for skill in skills]
    print_changes(f"skillbook {name}", changes, location, version, undo, as_json=as_json)
    return DONE
