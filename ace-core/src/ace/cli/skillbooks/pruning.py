"""Finds the skills that harm or do not help."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ace.cli.wording import counted
from ace.skill import Skill

if TYPE_CHECKING:
    from ace.evaluation import SkillTestReport

__all__ = ["PruneRules", "PrunedSkill", "skills_to_prune", "unneeded_skills"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRules:
    """Which skills go."""

    harmful: bool = True
    """Those that did harm more often than they helped."""
    unhelpful_uses: int | None = None
    """Those that were judged this often or more, and never helped."""
    unused_days: float | None = None
    """Those that are this many days old or older, and were never judged."""
    invalid: bool = False
    """Those that were removed or merged into others before: they leave the skillbook."""


@dataclass(frozen=True, slots=True)
class PrunedSkill:
    """A skill that goes."""

    skill: Skill
    """The skill."""
    reason: str
    """Why, in words for people."""
    evidence: str = ""
    """What shows it, which the history of the skill keeps; empty where the skill itself shows it."""


def unneeded_skills(skills: Iterable[Skill], report: SkillTestReport) -> list[PrunedSkill]:
    """Return the skills that a test found to be unneeded, with the answers that show it; pinned ones stay.

    Args:
        skills: The skills of a book.
        report: What a test of the book found that asked the cases also without skills.
    """
    tests = {test.case.id: test for test in report.cases}
    unneeded = {each.skill_id for each in report.skills if each.verdict == "unneeded"}
    by = f" with {report.model}" if report.model else ""
    found = []
    for skill in skills:
        if skill.id in unneeded and not skill.pinned:
            why = f"{counted(len(skill.cases), 'case')} passed without skills{by}"
            of_skill = [tests[case.id] for case in skill.cases]
            answers = "; ".join(
                f"case {each.case.id}: {each.case.question} -> {each.answer_without}" for each in of_skill
            )
            found.append(PrunedSkill(skill, why, f"Unneeded: {why}. {answers}"))
    return found


def skills_to_prune(skills: Iterable[Skill], rules: PruneRules, now: datetime) -> list[PrunedSkill]:
    """Return the skills that go, and why; pinned ones stay.

    Args:
        skills: All skills of a book, also those that are not active.
        rules: Which skills go.
        now: The time from which ages are counted.

    Example:
        >>> skills = [Skill("a-00001", "a", "Guess.", harmful=2), Skill("a-00002", "a", "Check.", helpful=1)]
        >>> [(each.skill.id, each.reason) for each in skills_to_prune(skills, PruneRules(), datetime.now(UTC))]
        [('a-00001', 'harmful 2, helpful 0')]
    """
    found = ((skill, _reason(skill, rules, now)) for skill in skills)
    return [PrunedSkill(skill, reason) for skill, reason in found if reason]


def _reason(skill: Skill, rules: PruneRules, now: datetime) -> str:
    if not skill.is_active:
        before = "was removed before" if skill.merged_into is None else f"was merged into {skill.merged_into}"
        return before if rules.invalid else ""
    if skill.pinned:
        return ""
    if rules.harmful and skill.harmful > skill.helpful:
        return f"harmful {skill.harmful}, helpful {skill.helpful}"
    uses = sum(skill.counts().values())
    if rules.unhelpful_uses is not None and uses >= rules.unhelpful_uses and not skill.helpful:
        return f"judged {counted(uses, 'time')} and never helpful"
    if rules.unused_days is not None and not uses:
        age = _age(skill, now)
        if age is not None and age >= timedelta(days=rules.unused_days):
            return f"never judged in {age.days} days"
    return ""


def _age(skill: Skill, now: datetime) -> timedelta | None:
    """Return how old a skill is, or None for one from a file that does not tell."""
    try:
        added = datetime.fromisoformat(skill.created_at)
    except ValueError:
        return None
    return now - (added if added.tzinfo is not None else added.replace(tzinfo=UTC))
