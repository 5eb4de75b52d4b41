"""What the proofs of one sample lead to, before it is applied: the book as it will be, the operations and the notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ace.skill import Skill, SkillCase, join_cases
from ace.updates import UpdateOperation

if TYPE_CHECKING:
    from ace.proof.prover import CaseOutcome

__all__ = ["Attempt", "Draft", "ProofNote", "with_skill"]


@dataclass(frozen=True, slots=True)
class ProofNote:
    """The outcome of the proof of one operation, for `ApplyStep`, which knows the id of a new skill."""

    operation: UpdateOperation
    """The operation in the batch."""
    passed: bool | None
    """Whether its case passes; None if it was not asked or could not be judged."""
    before: str
    """The answer without the operation."""
    after: str
    """The answer with it."""
    retries: int
    """The number of other texts tried."""
    reason: str = ""
    """Why the operation is dropped; empty if it is kept."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of trying one text of an operation."""

    text: str
    skills: Sequence[Skill]
    """The book with the operation."""
    skill: Skill
    """The skill that results from the operation."""
    passed: bool | None
    answer: str = ""
    """The last answer."""
    outcomes: Mapping[str, CaseOutcome] = field(default_factory=dict)
    """The outcomes of the cases that were asked, by id."""
    problem: str = ""
    """Why it failed, for the reflector and for the person who reviews the skill."""


class Draft:
    """What the proofs of one sample have led to so far.

    Invariant: `skills` is what the book will hold when `operations` have been applied. Nothing else is written while
    the sample holds the lane.

    Args:
        skills: The skills of the book.
    """

    def __init__(self, skills: Sequence[Skill]) -> None:
        self.skills = skills
        self.operations: list[UpdateOperation] = []
        self.notes: list[ProofNote] = []
        self.asked: dict[str, str] = {}
        """The setting in which each case was last asked, by id; empty if the final test is to ask it."""
        self._ids = {skill.id for skill in skills}
        self._made = 0

    def with_text(
        self, operation: UpdateOperation, text: str, cases: Sequence[SkillCase]
    ) -> tuple[Sequence[Skill], Skill]:
        """Return the book with an operation applied with this text, and the skill that results from it."""
        old = self.changed_by(operation)
        if old is not None:
            changed = old.replace(content=text, section=operation.section or old.section)
            changed = changed.replace(cases=join_cases(old.cases, cases))
            return with_skill(self.skills, changed), changed
        self._made += 1
        added = Skill(f"new-{self._made:05}", operation.section, text, cases=tuple(cases))
        return [*self.skills, added], added

    def number_again(self) -> None:
        """Begin again with the ids of new skills, so that they do not depend on what was asked ahead."""
        self._made = 0

    def changed_by(self, operation: UpdateOperation) -> Skill | None:
        """Return the skill that an UPDATE concerns, if it is there."""
        if operation.type != "UPDATE":
            return None
        return next((skill for skill in self.skills if skill.id == operation.skill_id), None)

    def holders(self, case: SkillCase) -> list[Skill]:
        """Return the skills with a case that are in the book already, so that an operation can name them."""
        return [
            skill
            for skill in self.skills
            if skill.id in self._ids and any(known.id == case.id for known in skill.cases)
        ]


def with_skill(skills: Sequence[Skill], changed: Skill) -> list[Skill]:
    """Return the skills, of which this one replaces the one with its id."""
    return [changed if skill.id == changed.id else skill for skill in skills]
