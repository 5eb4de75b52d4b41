"""Imports the skills of one book into another, which keeps all its skills."""

from __future__ import annotations

from dataclasses import dataclass

from ace.cli.skillbooks.part import part_of
from ace.skill import Skill, missing_cases
from ace.skillbook import Skillbook

__all__ = ["Intake", "LeftOut", "carry_decisions", "join_known", "take_new", "taken_ids"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A skill that was skipped."""

    skill: Skill
    """The skill, as it is in its file."""
    reason: str
    """Why, in words for people."""
    known: Skill | None = None
    """The existing skill with the same section and text."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The result of importing one book."""

    taken: tuple[Skill, ...]
    """The new skills, as they are in their file; they may have other ids in the skillbook."""
    left: tuple[LeftOut, ...]
    """The others."""


def take_new(target: Skillbook, source: Skillbook, *, with_invalid: bool) -> Intake:
    """Add the skills of which the book has none with the same section and text.

    Args:
        target: The book that is added to. A skill whose id it has already gets a new one.
        source: The other book; it is not changed.
        with_invalid: Whether removed skills are added, as removed ones, or skipped.
    """
    known = {_key(skill): skill for skill in target.skills(include_invalid=True)}
    taken: dict[tuple[str, str], Skill] = {}
    left = []
    for skill in source.skills(include_invalid=True):
        if (same := known.get(_key(skill))) is not None:
            reason = "already exists as" if same.is_active else "was removed from the skillbook:"
            left.append(LeftOut(skill, f"{reason} {same.id}", same))
        elif not (with_invalid or skill.is_active):
            left.append(LeftOut(skill, "was removed in the file"))
        elif _key(skill) in taken:
            left.append(LeftOut(skill, f"duplicates {taken[_key(skill)].id} in the file"))
        else:
            taken[_key(skill)] = skill
    if taken:
        target.import_skills(part_of(source, {skill.id for skill in taken.values()}))
    return Intake(tuple(taken.values()), tuple(left))


def taken_ids(book: Skillbook, intake: Intake) -> dict[str, str]:
    """Return the ids that the taken skills have in the book, by those in their file.

    Args:
        book: The book, after its changes were kept: only then are the ids sure.
        intake: What was taken.
    """
    ids = {_key(skill): skill.id for skill in book.skills(include_invalid=True)}
    return {skill.id: ids[_key(skill)] for skill in intake.taken if _key(skill) in ids}


def join_known(target: Skillbook, intake: Intake) -> list[str]:
    """Give the skills that were there already what the other book knows of them.

    That is: higher counters, further sources and cases.

    Args:
        target: The book.
        intake: What `take_new` said.

    Returns:
        The ids of the skills that changed.
    """
    changed = []
    for each in intake.left:
        ours = None if each.known is None else target.get_skill(each.known.id)
        if ours is not None and ours.is_active and each.skill.is_active and _join(target, ours, each.skill):
            changed.append(ours.id)
    return changed


def carry_decisions(target: Skillbook, source: Skillbook, intake: Intake) -> None:
    """Note for pairs with a skill that was there already that the other book judged them to differ.

    Args:
        target: The book, after `take_new`.
        source: The other book.
        intake: What `take_new` said.
    """
    ids = taken_ids(target, intake) | {each.skill.id: each.known.id for each in intake.left if each.known is not None}
    for (first, second), decision in source.similarity_decisions().items():
        pair = ids.get(first), ids.get(second)
        if pair[0] is None or pair[1] is None or pair[0] == pair[1]:
            continue
        if target.get_similarity_decision(pair[0], pair[1]) is None:
            target.set_similarity_decision(pair[0], pair[1], decision)


def _join(target: Skillbook, ours: Skill, theirs: Skill) -> bool:
    higher = {tag: count - ours.counts()[tag] for tag, count in theirs.counts().items() if count > ours.counts()[tag]}
    for tag, increment in higher.items():
        target.tag_skill(ours.id, tag, increment)
    further = [source for source in theirs.sources if source not in ours.sources]
    for source in further:
        target.update_skill(ours.id, insight_source=source)
    cases = missing_cases(ours, theirs)
    if cases:
        target.put_cases(ours.id, cases)
    return bool(higher or further or cases)


def _key(skill: Skill) -> tuple[str, str]:
    return skill.section, skill.content
