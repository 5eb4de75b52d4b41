"""The skills of one book in order, with the indexes that make its operations cheap.

The order of a book is the order of its skills; sections follow from it: a section stands where its
first skill stands. So a book that is read back from any store has the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from ace.skill import ACTIVE, SimilarityDecision, Skill
from ace.skillbook.identity import skill_id

SkillWatcher = Callable[[Skill | None, Skill | None], None]
"""Called with the skill before and after each change; None where there is none."""


@final
class BookState:
    """A mutable book without locks, clocks or files. One skillbook owns it."""

    __slots__ = (
        "_active",
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
        """No number below this is given out again, not even after a rollback."""
        self.watch: SkillWatcher | None = None
        self.next_position = 0
        """The place of the next new skill. Every process that shares a store counts alike."""
        self.order_changes = 0
        """How often skills came back in the middle; whoever keeps an order of its own starts anew then."""
        self._unordered = False
        self._active: list[Skill] | None = []

    def put(self, skill: Skill, position: int | None = None) -> None:
        """Add a skill at the end, or replace the one with its id where that stands.

        Args:
            skill: The skill. If it replaces one of another section, it moves to the end.
            position: The place of a skill that comes back; None for a new one.
        """
        self._active = None
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
        if self.watch is not None:
            self.watch(before, skill)

    def put_vector(self, skill_id: str, vector: bytes | None) -> None:
        """Set the vector of a skill; its id must be there. Whoever watches texts is not told."""
        self._active = None
        self.skills[skill_id] = self.skills[skill_id].replace(embedding=vector)

    def fill(self, skills: list[Skill]) -> None:
        """Put all skills into this book, which is empty and not watched. Their ids differ."""
        self.skills = {skill.id: skill for skill in skills}
        self.positions = dict(zip(self.skills, range(len(skills)), strict=True))
        self.next_position = len(skills)
        self._active = None
        for skill in skills:
            section = self.sections.get(skill.section)
            if section is None:
                section = self.sections[skill.section] = {}
            section[skill.id] = None
            self.active_count += skill.status == ACTIVE

    def remove(self, skill_id: str) -> None:
        """Take the skill out; its id must be there."""
        self._active = None
        skill = self.skills.pop(skill_id)
        self.active_count -= skill.status == ACTIVE
        members = self.sections[skill.section]
        del members[skill_id]
        if not members:
            del self.sections[skill.section]
        if self.watch is not None:
            self.watch(skill, None)
        del self.positions[skill_id]

    def free_id(self, section: str) -> tuple[str, int]:
        """Return an id for a new skill of the section that no skill has, and its number."""
        number = max(self.next_id, self.id_floor)
        while (found := skill_id(section, number)) in self.skills:
            number += 1
        return found, number

    def take_number(self, number: int) -> None:
        """Move the counter behind a number that was given out."""
        if number >= self.next_id:
            self.next_id = number + 1
        if number >= self.id_floor:
            self.id_floor = number + 1

    def active_skills(self) -> list[Skill]:
        """Return a new list of the active skills, in the order of the book."""
        if self._active is None:
            self._active = [skill for skill in self.ordered_skills().values() if skill.status == ACTIVE]
        return self._active.copy()

    def ordered_skills(self) -> dict[str, Skill]:
        """Return the skills by id, in the order of the book."""
        self.restore_order()
        return self.skills

    def ordered_sections(self) -> list[str]:
        """Return the names of the sections, each where its first skill stands."""
        self.restore_order()
        positions = self.positions
        return sorted(self.sections, key=lambda name: positions[next(iter(self.sections[name]))])

    def restore_order(self) -> None:
        """Put skills that came back where they stood."""
        if not self._unordered:
            return
        self._unordered = False
        by_position = self.positions.__getitem__
        self.skills = {id: self.skills[id] for id in sorted(self.skills, key=by_position)}
        for name, members in self.sections.items():
            self.sections[name] = dict.fromkeys(sorted(members, key=by_position))

    def become(self, other: BookState) -> None:
        """Take over everything from a book that is not used any more; the watcher stays."""
        self.skills, self.positions, self.sections = other.skills, other.positions, other.sections
        self.decisions, self.active_count = other.decisions, other.active_count
        self._active = None
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
