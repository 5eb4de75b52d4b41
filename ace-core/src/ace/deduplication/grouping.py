"""Groups of skills, in which each skill stands once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ace.deduplication.detector import SimilarPair
from ace.deduplication.wording import telling_words, told_values
from ace.skill import Skill
from ace.skillbook import Skillbook

__all__ = ["SimilarGroup", "groups_of_pairs", "same_wording"]

LARGEST_GROUP = 8
"""More skills than this are too many to judge at once; what is left over is judged the next time."""


@dataclass(frozen=True, slots=True)
class SimilarGroup:
    """Skills that are similar, with the pairs that say so."""

    skills: tuple[Skill, ...]
    pairs: tuple[SimilarPair, ...]


def same_wording(skillbook: Skillbook, *, within_section_only: bool) -> list[list[Skill]]:
    """Return the groups of active skills that say the same in the same words, and hold the same values.

    Args:
        skillbook: The book. Skills that were judged to be kept apart are in no common group.
        within_section_only: Whether skills of different sections are never in a common group.
    """
    same_words: dict[tuple[str, tuple[str, ...]], list[Skill]] = {}
    for skill in skillbook.skills():
        section = skill.section if within_section_only else ""
        same_words.setdefault((section, telling_words(skill.content)), []).append(skill)
    # Few skills of a book have the words of another one, and only their values need a look.
    return [group for skills in same_words.values() if len(skills) > 1 for group in _same_values(skillbook, skills)]


def _same_values(skillbook: Skillbook, skills: Sequence[Skill]) -> Iterator[list[Skill]]:
    groups: dict[frozenset[str], list[list[Skill]]] = {}
    for skill in skills:
        candidates = groups.setdefault(told_values(skill.content), [])
        for group in candidates:
            if not any(skillbook.has_keep_decision(skill.id, member.id) for member in group):
                group.append(skill)
                break
        else:
            candidates.append([skill])
    return (group for candidates in groups.values() for group in candidates if len(group) > 1)


def groups_of_pairs(pairs: Sequence[SimilarPair]) -> list[SimilarGroup]:
    """Join pairs to groups, the most similar pairs first.

    Args:
        pairs: The pairs, the most similar first. A pair whose groups would become too large together
            is left out.

    Returns:
        The groups in the order of their most similar pairs.
    """
    group_of: dict[str, list[Skill]] = {}
    for pair in pairs:
        first = group_of.setdefault(pair.first.id, [pair.first])
        second = group_of.setdefault(pair.second.id, [pair.second])
        if first is not second and len(first) + len(second) <= LARGEST_GROUP:
            first += second
            for skill in second:
                group_of[skill.id] = first
    inside: dict[int, list[SimilarPair]] = {}
    for pair in pairs:
        group = group_of[pair.first.id]
        if group is group_of[pair.second.id]:
            inside.setdefault(id(group), []).append(pair)
    return [SimilarGroup(tuple(group_of[held[0].first.id]), tuple(held)) for held in inside.values()]
