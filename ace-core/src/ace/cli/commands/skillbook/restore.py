"""`ace skillbook restore`: restores removed skills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import undo_command
from ace.cli.skillbooks.opened_book import check_writable, location_of, opened, save
from ace.cli.skillbooks.selection import find_skill, part_of
from ace.cli.skillbooks.skill_output import print_changes
from ace.skill import ACTIVE, Skill
from ace.skillbook import Skillbook

__all__ = ["command"]


def command(
    *ids: Annotated[str, Parameter(required=True)], skillbook: SkillbookOption = None, as_json: JsonFlag = False
) -> int:
    """Restore skills that were removed or merged into others, with their counters and sources.

    In a .db skillbook, the change creates a new version. The command that undoes it is printed. If one of the ids is
    unknown, no skill is restored.

    For example:

        ace skillbook show --all
        ace skillbook restore maths-00001

    Args:
        ids: The ids of the skills.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    check_writable(location)
    with opened(location) as book:
        found = dict.fromkeys(find_skill(book, location, id) for id in ids)
        for skill in found:
            if skill.is_active:
                raise UsageError(f"the skill {skill.id!r} is not removed, so nothing was changed")
            if skill.is_pending or skill.is_rejected:
                state = "pending" if skill.is_pending else "rejected"
                raise UsageError(f"the skill {skill.id!r} is {state}; `ace review --accept {skill.id}` makes it active")
        with book.deferred_commits():
            _restore(book, list(found))
            version = save(book, location, author="ace skillbook restore")
        skills = [find_skill(book, location, skill.id) for skill in found]
    undo = undo_command(location, version, ["remove", *(skill.id for skill in skills), "--yes"])
    changes = [("restored", skill) for skill in skills]
    print_changes("skillbook restore", changes, location, version, undo, as_json=as_json)
    return DONE


def _restore(book: Skillbook, skills: Sequence[Skill]) -> None:
    """Delete the skills and import them as active ones: a skill whose id is free keeps it."""
    ids = {skill.id for skill in skills}
    decisions = {pair: decision for pair, decision in book.similarity_decisions().items() if ids & set(pair)}
    data = part_of(book, ids).to_dict()
    for fields in _objects(data["skills"]):
        fields["status"] = ACTIVE
        fields["merged_into"] = None
    for skill in skills:
        book.remove_skill(skill.id)
    book.import_skills(Skillbook.from_dict(data))
    for (first, second), decision in decisions.items():
        book.set_similarity_decision(first, second, decision)


def _objects(value: object) -> list[dict[str, object]]:
    return [item for item in value.values() if isinstance(item, dict)] if isinstance(value, dict) else []
