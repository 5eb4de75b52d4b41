"""Selects and removes skills that harm or do not help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ace.skill import Skill

if TYPE_CHECKING:
    from ace.skillbook.book import Skillbook

__all__ = ["PruneRules", "PrunedSkill", "prune", "skills_to_prune"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRules:
    """Rules for the skills to remove or delete."""

    harmful: bool = True
    """Whether to remove skills that were judged harmful more often than helpful."""
    unhelpful_uses: int | None = None
    """Remove skills that were judged at least this many times and never helped; None keeps them."""
    unused_days: float | None = None
    """Remove skills that are at least this many days old and were never judged; None keeps them."""
    net_below: int | None = None
    """Remove skills with a net score (helpful minus harmful judgements) below this; None ignores the net score."""
    invalid: bool = False
    """Whether to delete skills that were removed or merged into others earlier."""


@dataclass(frozen=True, slots=True)
class PrunedSkill:
    """A skill to remove or delete."""

    skill: Skill
    """The skill."""
    reason: str
    """Why it is removed."""
    evidence: str = ""
    """Evidence to add to the history of the skill; empty if the counters of the skill are the evidence."""


def prune(skillbook: Skillbook, pruned: Sequence[PrunedSkill]) -> None:
    """Deactivate skills, and delete those that were already inactive. The caller commits the change.

    Args:
        skillbook: The book.
        pruned: The result of `skills_to_prune` for this book.
    """
    for entry in pruned:
        if entry.evidence:
            skillbook.update_skill(entry.skill.id, evidence=entry.evidence)
        skillbook.remove_skill(entry.skill.id, soft=entry.skill.is_active)


def skills_to_prune(skills: Iterable[Skill], rules: PruneRules, now: datetime) -> list[PrunedSkill]:
    """Return the skills to remove or delete, with the reasons. Pinned, pending and rejected skills are kept.

    Args:
        skills: All skills of a book, including inactive ones.
        rules: The rules to apply.
        now: The current time, from which the age of skills is computed.

    Example:
        >>> skills = [Skill("a-00001", "a", "Guess.", harmful=2), Skill("a-00002", "a", "Check.", helpful=1)]
        >>> [(removed.skill.id, removed.reason) for removed in skills_to_prune(skills, PruneRules(), datetime.now(UTC))]
        [('a-00001', 'harmful 2, helpful 0')]
    """
    found = ((skill, _reason(skill, rules, now)) for skill in skills)
    return [PrunedSkill(skill, reason) for skill, reason in found if reason]


def _reason(skill: Skill, rules: PruneRules, now: datetime) -> str:
    if skill.is_pending or skill.is_rejected:
        return ""
    if not skill.is_active:
        before = "was removed before" if skill.merged_into is None else f"was merged into {skill.merged_into}"
        return before if rules.invalid else ""
    if skill.pinned:
        return ""
    if rules.net_below is not None and skill.helpful - skill.harmful < rules.net_below:
        return f"net score {skill.helpful - skill.harmful}, below {rules.net_below}"
    if rules.harmful and skill.harmful > skill.helpful:
        return f"harmful {skill.harmful}, helpful {skill.helpful}"
    uses = sum(skill.counts().values())
    if rules.unhelpful_uses is not None and uses >= rules.unhelpful_uses and not skill.helpful:
        times = "1 time" if uses == 1 else f"{uses} times"
        return f"judged {times} and never helpful"
    if rules.unused_days is not None and not uses:
        age = _age(skill, now)
        if age is not None and age / timedelta(days=1) >= rules.unused_days:
            return f"never judged in {age.days} days"
    return ""


def _age(skill: Skill, now: datetime) -> timedelta | None:
    """Return the age of a skill; None if its file does not contain the time."""
    try:
        added = datetime.fromisoformat(skill.created_at)
    except ValueError:
        return None
    return now - (added if added.tzinfo is not None else added.replace(tzinfo=UTC))
