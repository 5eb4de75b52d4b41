"""What can be done with similar skills, and how it is carried out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ace.skill import Skill, SkillCase
from ace.skillbook import EventRefusedError, Skillbook

__all__ = [
    "ConsolidationOperation",
    "ConsolidationReport",
    "DeleteOp",
    "KeepOp",
    "MergeOp",
    "SkippedConsolidation",
    "UpdateOp",
    "apply_consolidation_operations",
]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MergeOp:
    """Several skills become one: counters add up, sources and cases join, the others point to it."""

    source_ids: tuple[str, ...]
    """The skills; the one that stays may be among them."""
    keep_id: str
    """The skill that stays."""
    merged_content: str = ""
    """The text that says what all of them said; if empty, the longest of theirs."""
    reasoning: str = ""
    type: Literal["MERGE"] = "MERGE"

    @property
    def skill_ids(self) -> tuple[str, ...]:
        """All skills that are concerned, the one that stays first."""
        return tuple(dict.fromkeys((self.keep_id, *self.source_ids)))


@dataclass(frozen=True, slots=True)
class DeleteOp:
    """A skill that adds nothing to a similar one is softly removed."""

    skill_id: str
    reasoning: str = ""
    type: Literal["DELETE"] = "DELETE"

    @property
    def skill_ids(self) -> tuple[str, ...]:
        """The skill that is concerned."""
        return (self.skill_id,)


@dataclass(frozen=True, slots=True)
class KeepOp:
    """Similar skills that differ: all stay, and are not asked about again."""

    skill_ids: tuple[str, ...]
    differentiation: str = ""
    """What the difference is."""
    reasoning: str = ""
    type: Literal["KEEP"] = "KEEP"


@dataclass(frozen=True, slots=True)
class UpdateOp:
    """A skill gets a text that makes its difference clear."""

    skill_id: str
    new_content: str
    reasoning: str = ""
    type: Literal["UPDATE"] = "UPDATE"

    @property
    def skill_ids(self) -> tuple[str, ...]:
        """The skill that is concerned."""
        return (self.skill_id,)


ConsolidationOperation = MergeOp | DeleteOp | KeepOp | UpdateOp


@dataclass(frozen=True, slots=True)
class SkippedConsolidation:
    """An operation that was left out as a whole."""

    operation: ConsolidationOperation
    reason: str
    """Why, in words for people."""


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """What became of operations."""

    applied: tuple[ConsolidationOperation, ...] = ()
    skipped: tuple[SkippedConsolidation, ...] = ()


def apply_consolidation_operations(
    operations: Sequence[ConsolidationOperation],
    skillbook: Skillbook,
    *,
    similarities: Mapping[tuple[str, str], float] | None = None,
    results: Mapping[str, Sequence[SkillCase]] | None = None,
) -> ConsolidationReport:
    """Carry operations out, each whole or not at all. What cannot be done is skipped and logged.

    Nothing is lost: merged and deleted skills stay in the book as invalid. A skill that one operation
    has changed is out of reach for those after it.

    Args:
        operations: What to do, in order.
        skillbook: The book. With a store, everything is one commit.
        similarities: The similarity of pairs (ids in the order of the alphabet), to be kept with KEEP.
        results: By the id of the skill that stays, its cases as they were asked with the new text. They are kept
            where the operation was carried out.
    """
    applied: list[ConsolidationOperation] = []
    skipped: list[SkippedConsolidation] = []
    settled: set[str] = set()
    with skillbook.deferred_commits():
        for operation in operations:
            try:
                _check_ids(operation, skillbook, settled)
                _apply(operation, skillbook, similarities or {})
            except EventRefusedError as error:
                skipped.append(SkippedConsolidation(operation, str(error)))
                _logger.warning("%s of %s was skipped: %s", operation.type, operation.skill_ids, error)
            else:
                applied.append(operation)
                if not isinstance(operation, KeepOp):
                    settled.update(operation.skill_ids)
                    asked = (results or {}).get(operation.skill_ids[0])
                    if asked:
                        skillbook.note_results({operation.skill_ids[0]: asked})
        skillbook.commit(author="deduplication")
    return ConsolidationReport(tuple(applied), tuple(skipped))


def _check_ids(operation: ConsolidationOperation, skillbook: Skillbook, settled: set[str]) -> None:
    ids = operation.skill_ids
    if isinstance(operation, MergeOp | KeepOp) and len(ids) < 2:
        raise EventRefusedError(f"{operation.type} needs two skills, not {len(ids)}")
    for id in ids:
        if id in settled:
            raise EventRefusedError(f"an earlier operation has changed {id!r} already")
        skill = skillbook.get_skill(id)
        if skill is None or not skill.is_active:
            raise EventRefusedError(f"there is no active skill {id!r}")
    if isinstance(operation, MergeOp):
        for first, second in _pairs(ids):
            if skillbook.has_keep_decision(first, second):
                raise EventRefusedError(f"{first!r} and {second!r} were judged to be kept apart")


def _apply(
    operation: ConsolidationOperation, skillbook: Skillbook, similarities: Mapping[tuple[str, str], float]
) -> None:
    match operation:
        case MergeOp():
            _merge(operation, skillbook)
        case DeleteOp():
            skillbook.remove_skill(operation.skill_id, soft=True)
        case KeepOp():
            reasoning = operation.differentiation or operation.reasoning
            for first, second in _pairs(operation.skill_ids):
                similarity = similarities.get((min(first, second), max(first, second)), 0.0)
                skillbook.keep_apart(first, second, similarity=similarity, reasoning=reasoning)
        case UpdateOp():
            skillbook.update_skill(operation.skill_id, content=operation.new_content)


def _merge(operation: MergeOp, skillbook: Skillbook) -> None:
    """Merge, and hand on to the skill that stays what the others are kept apart from."""
    others = [id for id in operation.skill_ids if id != operation.keep_id]
    content = operation.merged_content
    if not content.strip():
        content = max((_active(skillbook, id).content for id in operation.skill_ids), key=len)
    skillbook.merge_skills(operation.keep_id, others, content)
    for pair, decision in skillbook.similarity_decisions().items():
        merged = [id for id in pair if id in others]
        apart = [id for id in pair if id not in operation.skill_ids]
        if decision.decision == "KEEP" and merged and apart and apart[0] in skillbook:
            skillbook.set_similarity_decision(operation.keep_id, apart[0], decision)


def _active(skillbook: Skillbook, skill_id: str) -> Skill:
    skill = skillbook.get_skill(skill_id)
    if skill is None:
        raise EventRefusedError(f"there is no active skill {skill_id!r}")
    return skill


def _pairs(ids: Sequence[str]) -> list[tuple[str, str]]:
    return [(first, second) for place, first in enumerate(ids) for second in ids[place + 1 :]]
