"""The ordered skills of one book, with indexes for cheap operations, and the assignment of ids.

The order of a book is the order of its skills, and determines the order of its sections: each section has the position
of its first skill. So a book that is read back from any store is serialized to the same bytes.
"""

from __future__ import annotations

import functools
import logging
import operator
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from ace.skill import ACTIVE, PENDING, SimilarityDecision, Skill, normalised_text, similarity_pair

logger = logging.getLogger(__name__)

FALLBACK_WORD = "skill"
LONGEST_WORD = 40
_WORD = re.compile(r"[a-z0-9][a-z0-9_-]*")
_OURS = re.compile(r"[a-z0-9][a-z0-9_-]*-\d{5,9}\Z", re.ASCII)
_NUMBER = re.compile(r"-(\d{1,9})\Z", re.ASCII)
"""A longer number in a foreign id is a hash or a date, not our counter."""


@functools.lru_cache(maxsize=1024)
def id_word(section: str) -> str:
    """Return the prefix of the ids of a section.

    Example:
        >>> id_word("Error handling"), id_word("Über uns"), id_word("")
        ('error', 'skill', 'skill')
    """
    words = section.lower().split(maxsplit=1)
    if not words or not section.isascii():
        return FALLBACK_WORD
    match = _WORD.search(words[0])
    return match.group()[:LONGEST_WORD].rstrip("-_") if match else FALLBACK_WORD


def skill_id(section: str, number: int) -> str:
    """Return the id of the skill with this number.

    Example:
        >>> skill_id("geography", 1)
        'geography-00001'
    """
    return f"{id_word(section)}-{number:05d}"


def looks_like_ours(id: str) -> bool:
    """Return whether an id has the form of those that ACE assigns.

    Example:
        >>> looks_like_ours("geography-00001"), looks_like_ours("new skill")
        (True, False)
    """
    return _OURS.match(id) is not None


def is_citable(id: str) -> bool:
    """Return whether an id can be cited in brackets: all characters are printable, and none is a space or bracket.

    Example:
        >>> is_citable("geography-00001"), is_citable("new skill"), is_citable("a]-1"), is_citable("")
        (True, False, False, False)
    """
    return bool(id) and id.isprintable() and not any(sign in id for sign in " []")


def citable_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return new ids for those that cannot be cited, each as similar to the old one as possible.

    Args:
        ids: All ids of a book, which differ.

    Example:
        >>> citable_ids(["a-1", "a 1", "a]1", ""])
        {'a 1': 'a_1', 'a]1': 'a_1_2', '': 'skill'}
    """
    taken = set(ids)
    renamed: dict[str, str] = {}
    for id in ids:
        if is_citable(id):
            continue
        plain = "".join(sign if is_citable(sign) else "_" for sign in id) or FALLBACK_WORD
        new, number = plain, 1
        while new in taken:
            number += 1
            new = f"{plain}_{number}"
        taken.add(new)
        renamed[id] = new
    return renamed


def number_after(ids: Iterable[str]) -> int:
    """Return the first number above every number in the ids, at which the counter continues.

    Example:
        >>> number_after(["geography-00007", "math-00003", "free text"])
        8
    """
    numbers = (int(match.group(1)) for id in ids if (match := _NUMBER.search(id)))
    return max(numbers, default=0) + 1


SkillWatcher = Callable[[Skill | None, Skill | None], None]
"""Called with the skill before and after each change; None if it does not exist."""


@final
class BookState:
    """A mutable book without locks, clocks or files. One skillbook owns it."""

    __slots__ = (
        "_active",
        "_by_text",
        "_changes",
        "_unordered",
        "active_count",
        "decisions",
        "id_floor",
        "next_id",
        "next_position",
        "order_changes",
        "positions",
        "sections",
        "skills",
        "watch",
    )

    def __init__(self) -> None:
        self.skills: dict[str, Skill] = {}
        self.positions: dict[str, int] = {}
        self.sections: dict[str, dict[str, None]] = {}
        self.decisions: dict[tuple[str, str], SimilarityDecision] = {}
        self.active_count = 0
        self.next_id = 1
        self.id_floor = 1
        """No number below this is assigned again, not even after a rollback."""
        self.watch: SkillWatcher | None = None
        self.next_position = 0
        """The position of the next new skill; the same in every process that shares a store."""
        self.order_changes = 0
        """How often skills were restored in the middle; cached orders are invalid afterwards."""
        self._unordered = False
        self._active: _ActiveSkills | None = None
        """Created on first use. Later changes are noted, and applied to it when it is used again."""
        self._changes: list[tuple[Skill | None, Skill | None, int]] = []
        self._by_text: dict[str, dict[str, None]] | None = None
        """The ids of the skills that have, or once had, a text. Created on first use."""

    def put(self, skill: Skill, position: int | None = None) -> None:
        """Add a skill at the end, or replace the one with the same id in its position.

        Args:
            skill: The skill. If it replaces one of another section, it moves to the end.
            position: The position of a skill that is restored; None for a new one.
        """
        before = self.skills.get(skill.id)
        if before is not None and before.section != skill.section:
            self.remove(skill.id)
            before = None
        if before is None:
            if position is None:
                position = self.next_position
            elif position < self.next_position:
                self._unordered = True
                self.order_changes += 1
            if position >= self.next_position:
                self.next_position = position + 1
            self.positions[skill.id] = position
            section = self.sections.get(skill.section)
            if section is None:
                section = self.sections[skill.section] = {}
            section[skill.id] = None
        else:
            self.active_count -= before.status == ACTIVE
        self.active_count += skill.status == ACTIVE
        self.skills[skill.id] = skill
        if self._by_text is not None and (before is None or before.content != skill.content):
            self._by_text.setdefault(normalised_text(skill.content), {})[skill.id] = None
        if self._active is not None:
            self._note(before, skill, self.positions[skill.id])
        if self.watch is not None:
            self.watch(before, skill)

    def put_vector(self, skill_id: str, vector: bytes | None) -> None:
        """Set the vector of an existing skill. The watcher is not called, since the text does not change."""
        before = self.skills[skill_id]
        skill = self.skills[skill_id] = before.replace(embedding=vector)
        if self._active is not None:
            self._note(before, skill, self.positions[skill_id])

    def fill(self, skills: list[Skill], positions: Sequence[int]) -> None:
        """Put all skills, with distinct ids, into this book, which is empty and has no watcher.

        Args:
            skills: The skills, in any order.
            positions: The position of each.
        """
        self.skills = {skill.id: skill for skill in skills}
        self.positions = dict(zip(self.skills, positions, strict=True))
        self.next_position = max(positions, default=-1) + 1
        self._unordered = any(map(operator.gt, positions, positions[1:]))
        self._active = self._by_text = None
        for skill in skills:
            section = self.sections.get(skill.section)
            if section is None:
                section = self.sections[skill.section] = {}
            section[skill.id] = None
            self.active_count += skill.status == ACTIVE

    def remove(self, skill_id: str) -> None:
        """Remove an existing skill."""
        skill = self.skills.pop(skill_id)
        if self._active is not None:
            self._note(skill, None, self.positions[skill_id])
        self.active_count -= skill.status == ACTIVE
        members = self.sections[skill.section]
        del members[skill_id]
        if not members:
            del self.sections[skill.section]
        if self.watch is not None:
            self.watch(skill, None)
        del self.positions[skill_id]

    def with_text(self, content: str) -> Skill | None:
        """Return the active or pending skill that has this text, if there is one; see `normalised_text`."""
        if self._by_text is None:
            self._by_text = {}
            for skill in self.ordered_skills().values():
                self._by_text.setdefault(normalised_text(skill.content), {})[skill.id] = None
        text = normalised_text(content)
        for id in self._by_text.get(text, ()):
            known = self.skills.get(id)
            if known is not None and known.status in (ACTIVE, PENDING) and normalised_text(known.content) == text:
                return known
        return None

    def free_id(self, section: str) -> tuple[str, int]:
        """Return an unused id for a new skill of the section, and its number."""
        number = max(self.next_id, self.id_floor)
        while (found := skill_id(section, number)) in self.skills:
            number += 1
        return found, number

    def take_number(self, number: int) -> None:
        """Advance the counter beyond a number that was assigned."""
        if number >= self.next_id:
            self.next_id = number + 1
        if number >= self.id_floor:
            self.id_floor = number + 1

    def active_skills(self) -> list[Skill]:
        """Return a new list of the active skills, in the order of the book."""
        return self._kept().skills.copy()

    def active_counts(self) -> tuple[int, int, int]:
        """Return the sums of the counters of the active skills: helpful, harmful and neutral."""
        kept = self._kept()
        return kept.helpful, kept.harmful, kept.neutral

    def judged_count(self) -> int:
        """Return how many active skills were judged helpful or harmful at least once."""
        return self._kept().judged

    def active_section_count(self) -> int:
        """Return the number of sections with active skills."""
        return len(self._kept().sections)

    def active_sections(self) -> list[str]:
        """Return the names of the sections with active skills, in the order of their first active skills."""
        firsts: dict[str, int] = {}
        for name in self._kept().sections:
            first = next(id for id in self.sections[name] if self.skills[id].status == ACTIVE)
            firsts[name] = self.positions[first]
        return sorted(firsts, key=firsts.__getitem__)

    def _kept(self) -> _ActiveSkills:
        if self._active is None:
            active = [skill for skill in self.ordered_skills().values() if skill.status == ACTIVE]
            self._active = _ActiveSkills(active, [self.positions[skill.id] for skill in active])
        else:
            self.restore_order()
            for before, after, position in self._changes:
                self._active.change(before, after, position)
        self._changes.clear()
        return self._active

    def _note(self, before: Skill | None, after: Skill | None, position: int) -> None:
        """Note a change for `_kept`. With more changes than skills, it is quicker to look at all skills again."""
        self._changes.append((before, after, position))
        if len(self._changes) > len(self.skills):
            self._active = None
            self._changes.clear()

    def ordered_skills(self) -> dict[str, Skill]:
        """Return the skills by id, in the order of the book."""
        self.restore_order()
        return self.skills

    def ordered_sections(self, only: Iterable[str] | None = None) -> list[str]:
        """Return the names of the sections, in the order of their first skills.

        Args:
            only: The sections to return, if they exist; None returns all.
        """
        self.restore_order()
        positions, sections = self.positions, self.sections
        names = sections if only is None else [name for name in only if name in sections]
        return sorted(names, key=lambda name: positions[next(iter(sections[name]))])

    def restore_order(self) -> None:
        """Move restored skills to their positions."""
        if not self._unordered:
            return
        self._unordered = False
        by_position = self.positions.__getitem__
        self.skills = {id: self.skills[id] for id in sorted(self.skills, key=by_position)}
        for name, members in self.sections.items():
            self.sections[name] = dict.fromkeys(sorted(members, key=by_position))

    def become(self, other: BookState) -> None:
        """Take over the contents of another state, which must not be used afterwards; the watcher is kept."""
        self.skills, self.positions, self.sections = other.skills, other.positions, other.sections
        self.decisions, self.active_count = other.decisions, other.active_count
        self._active = self._by_text = None
        self.next_id, self.id_floor = other.next_id, other.id_floor
        self.next_position, self._unordered = other.next_position, other._unordered
        self.order_changes += 1

    def copy(self) -> BookState:
        """Return an independent copy without the watcher."""
        other = BookState()
        for skill in self.ordered_skills().values():
            other.put(skill, self.positions[skill.id])
        other.decisions = dict(self.decisions)
        other.next_id, other.id_floor = self.next_id, self.id_floor
        other.next_position = self.next_position
        return other


@final
class _ActiveSkills:
    """The active skills of a book in order, with their counts. Updating one skill does not visit the others."""

    __slots__ = ("_positions", "harmful", "helpful", "judged", "neutral", "sections", "skills")

    def __init__(self, skills: list[Skill], positions: list[int]) -> None:
        self.skills = skills
        self._positions = positions
        self.sections = Counter(map(operator.attrgetter("section"), skills))
        """The number of skills by section."""
        self.helpful = sum(map(operator.attrgetter("helpful"), skills))
        self.harmful = sum(map(operator.attrgetter("harmful"), skills))
        self.neutral = sum(map(operator.attrgetter("neutral"), skills))
        self.judged = sum(map(_is_judged, skills))
        """The number of skills that were judged helpful or harmful at least once."""

    def change(self, before: Skill | None, after: Skill | None, position: int) -> None:
        """Replace, add or remove the skill at a position. Both skills are of the same section."""
        was_active = before is not None and before.status == ACTIVE
        is_active = after is not None and after.status == ACTIVE
        if before is not None and after is not None and was_active and is_active:
            self.skills[bisect_left(self._positions, position)] = after
            self.helpful += after.helpful - before.helpful
            self.harmful += after.harmful - before.harmful
            self.neutral += after.neutral - before.neutral
            self.judged += _is_judged(after) - _is_judged(before)
        elif before is not None and was_active:
            place = bisect_left(self._positions, position)
            del self.skills[place], self._positions[place]
            self._count(before, -1)
        elif after is not None and is_active:
            place = bisect_left(self._positions, position)
            self.skills.insert(place, after)
            self._positions.insert(place, position)
            self._count(after, 1)

    def _count(self, skill: Skill, sign: int) -> None:
        self.helpful += sign * skill.helpful
        self.harmful += sign * skill.harmful
        self.neutral += sign * skill.neutral
        self.judged += sign * _is_judged(skill)
        left = self.sections[skill.section] = self.sections[skill.section] + sign
        if not left:
            del self.sections[skill.section]


def _is_judged(skill: Skill) -> bool:
    return skill.helpful > 0 or skill.harmful > 0


@dataclass(slots=True)
class BookContents:
    """The contents of a skillbook, independent of its state in memory and of file formats."""

    skills: list[Skill] = field(default_factory=list)
    decisions: dict[tuple[str, str], SimilarityDecision] = field(default_factory=dict)
    next_id: int = 1
    ignored_fields: tuple[str, ...] = ()
    """Unsupported fields of a foreign file; such a file is not overwritten."""


def with_citable_ids(contents: BookContents) -> BookContents:
    """Return the contents with new ids for skills whose ids could not be cited, or would break the lines of a prompt.

    References to such ids are updated. A warning lists the old and the new ids.
    """
    ids = [skill.id for skill in contents.skills]
    # All are checked at once, since hardly any book has something to rename.
    if all(ids) and is_citable("".join(["-", *ids])):
        return contents
    renamed = citable_ids(ids)
    changes = ", ".join(f"{old!r} is now {new!r}" for old, new in renamed.items())
    logger.warning("Ids that cannot be cited were changed: %s", changes)
    skills = [
        skill.replace(
            id=renamed.get(skill.id, skill.id),
            merged_into=None if skill.merged_into is None else renamed.get(skill.merged_into, skill.merged_into),
        )
        for skill in contents.skills
    ]
    decisions = {
        similarity_pair(renamed.get(first, first), renamed.get(second, second)): decision
        for (first, second), decision in contents.decisions.items()
    }
    return replace(contents, skills=skills, decisions=decisions)


def state_from(contents: BookContents) -> BookState:
    """Return a book with these contents."""
    state = BookState()
    state.fill(contents.skills, range(len(contents.skills)))
    state.decisions = dict(contents.decisions)
    state.next_id = state.id_floor = contents.next_id
    return state
