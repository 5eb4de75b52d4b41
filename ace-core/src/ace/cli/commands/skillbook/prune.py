"""`ace skillbook prune`: takes out skills that harm or do not help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from ace.cli.clock import clock_from_environment
from ace.cli.console import note, print_json, print_table, print_text
from ace.cli.errors import DONE, UsageError
from ace.cli.options import Flag, JsonFlag, SkillbookOption, YesFlag
from ace.cli.skillbooks.opening import check_writable, location_of, opened, save
from ace.cli.skillbooks.pruning import PrunedSkill, PruneRules, skills_to_prune
from ace.skillbook import Skillbook

__all__ = ["command"]


def command(
    *,
    harmful: Annotated[bool, Parameter(show_default=False)] = True,
    unhelpful_uses: int | None = None,
    unused_days: float | None = None,
    invalid: Annotated[bool, Flag] = False,
    skillbook: SkillbookOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Show which skills harm or do not help; with --yes, take them out.

    They are marked invalid, so no agent sees them any more, and stay in the book. In a store that is one version,
    which one `ace skillbook rollback` takes back.

    Args:
        harmful: Take out skills that did harm more often than they helped; --no-harmful leaves them.
        unhelpful_uses: Take out skills too that were judged this often or more, and never helped.
        unused_days: Take out skills too that are this many days old or older, and were never judged.
        invalid: Remove skills for good that were marked invalid or merged away before.
        skillbook: The skillbook; skills.db by default.
        yes: Do it.
        as_json: Print one JSON object.
    """
    for name, least, value in (("--unhelpful-uses", 1, unhelpful_uses), ("--unused-days", 0, unused_days)):
        if value is not None and not value >= least:
            raise UsageError(f"{name} is a number from {least}, not {value}")
    rules = PruneRules(harmful=harmful, unhelpful_uses=unhelpful_uses, unused_days=unused_days, invalid=invalid)
    location = location_of(skillbook)
    check_writable(location)
    with opened(location) as book:
        pruned = skills_to_prune(book.skills(include_invalid=True), rules, clock_from_environment()())
        version = book.version
        if yes and pruned:
            version = _prune(book, location, pruned)
        is_store = book.store is not None
    if as_json:
        found = [_as_json(each) for each in pruned]
        print_json(
            {
                "command": "skillbook prune",
                "skillbook": location,
                "version": version,
                "is_done": yes and bool(pruned),
                "skills": found,
            }
        )
        return DONE
    _print(pruned)
    if pruned and not yes:
        note("nothing was changed; --yes takes them out")
    elif pruned and is_store and version is not None:
        print_text(f"{location} is at version {version} now; `ace skillbook rollback {version - 1}` takes it back")
    return DONE


def _prune(book: Skillbook, location: str, pruned: Sequence[PrunedSkill]) -> int | None:
    with book.deferred_commits():
        for each in pruned:
            book.remove_skill(each.skill.id, soft=each.skill.is_active)
        return save(book, location, author="ace skillbook prune")


def _as_json(each: PrunedSkill) -> dict[str, object]:
    return {
        "id": each.skill.id,
        "section": each.skill.section,
        "content": each.skill.content,
        "reason": each.reason,
        "is_removed_for_good": not each.skill.is_active,
    }


def _print(pruned: Sequence[PrunedSkill]) -> None:
    if not pruned:
        print_text("there is no skill to take out")
        return
    print_table(
        ["skill", "why", "what", "content"],
        [
            [
                each.skill.id,
                each.reason,
                "marked invalid" if each.skill.is_active else "removed for good",
                each.skill.content,
            ]
            for each in pruned
        ],
    )
