"""`DeduplicationManager`: makes one skill of those that say the same."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ace.arguments import checked_class
from ace.deduplication.detector import SimilarityDetector
from ace.deduplication.grouping import SimilarGroup, groups_of_pairs, same_wording
from ace.deduplication.operations import (
    ConsolidationOperation,
    ConsolidationReport,
    DeleteOp,
    MergeOp,
    SkippedConsolidation,
    apply_consolidation_operations,
)
from ace.deduplication.parsed_operations import parse_consolidation_operations
from ace.deduplication.prompts import consolidation_prompt, similarity_report
from ace.protocols.calling import BLOCKING, finished
from ace.protocols.deduplication import DeduplicationConfig, EmbedderLike, SkillConsolidatorLike
from ace.protocols.role_calls import call_consolidator
from ace.skill import Skill, similarity_pair
from ace.skillbook import Skillbook

__all__ = ["ConsolidationResult", "DeduplicationManager"]

_logger = logging.getLogger(__name__)
_GROUPS_PER_QUESTION = 25


@dataclass(frozen=True, slots=True)
class ConsolidationResult:
    """What a consolidation did."""

    applied: tuple[ConsolidationOperation, ...] = ()
    """What was done, in order."""
    skipped: tuple[SkippedConsolidation, ...] = ()
    """What a skill manager wanted and could not have, and why."""
    undecided: tuple[tuple[str, ...], ...] = ()
    """The ids of similar skills about which nothing was decided, group by group."""
    problem: str = ""
    """What kept a model from being asked; empty if nothing did."""

    def __bool__(self) -> bool:
        """Return whether there is something to tell that was not known before."""
        return bool(self.applied or self.skipped or self.problem)

    def __str__(self) -> str:
        """Return one line for a log."""
        counts: dict[str, int] = {}
        for operation in self.applied:
            counts[operation.type] = counts.get(operation.type, 0) + 1
        done = ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing to do"
        line = f"{done}; {len(self.skipped)} skipped, {len(self.undecided)} groups undecided"
        return f"{line}; {self.problem}" if self.problem else line


@checked_class
class DeduplicationManager:
    """Finds similar skills and consolidates them.

    Skills of the same wording are merged by rule. Other similar skills are put to the skill manager, all
    in one call; without one they stay as they are.

    Args:
        config: The settings; None takes the defaults.
        skill_manager: Who judges similar skills; it is asked if it has `consolidate_skills`. A runner that is given
            a manager without one has its own skill manager asked.
        embedder: What makes vectors; by default as the settings say.

    Example:
        >>> book = Skillbook()
        >>> for content in ("Check the units.", "Check units"):
        ...     _ = book.add_skill("maths", content, metadata={"helpful": 2})
        >>> print(DeduplicationManager().consolidate(book))
        1 MERGE; 0 skipped, 0 groups undecided
        >>> [(skill.content, skill.helpful) for skill in book.skills()]
        [('Check the units.', 4)]
    """

    def __init__(
        self,
        config: DeduplicationConfig | None = None,
        skill_manager: object | None = None,
        *,
        embedder: EmbedderLike | None = None,
    ) -> None:
        self.config = config if config is not None else DeduplicationConfig()
        self.skill_manager = skill_manager
        self.detector = SimilarityDetector(self.config, embedder=embedder)

    def with_skill_manager(self, skill_manager: object) -> DeduplicationManager:
        """Return a manager that asks this skill manager, or this one if it has a skill manager of its own.

        Both share the settings, the embedder and the vectors that are in memory.

        Args:
            skill_manager: Who judges similar skills.
        """
        if self.skill_manager is not None:
            return self
        other = copy.copy(self)
        other.skill_manager = skill_manager
        return other

    def get_similarity_report(self, skillbook: Skillbook) -> str | None:
        """Return a text on the similar skills of a book, or None if there are none.

        Args:
            skillbook: The book. Vectors that are missing are kept in it; nothing else is changed.
        """
        if not self.config.enabled:
            return None
        same = self._same_wording(skillbook)
        similar, _ = self._similar_groups(skillbook)
        return similarity_report(same, similar) if same or similar else None

    def consolidate(self, skillbook: Skillbook) -> ConsolidationResult:
        """Merge skills that say the same, and have similar ones judged.

        A model that cannot be reached is logged and costs no skill: what rules decide is done, the rest
        stays as it is.

        Args:
            skillbook: The book. With a store, `rollback` to the version before takes everything back.

        Returns:
            What was done, what was skipped and what stays undecided.
        """
        if not self.config.enabled:
            return ConsolidationResult()
        merges = [_merge_of(group) for group in self._same_wording(skillbook)]
        by_rule = apply_consolidation_operations(merges, skillbook)
        groups, problem = self._similar_groups(skillbook)
        judged, judge_problem = self._judged(groups[:_GROUPS_PER_QUESTION], skillbook)
        touched = {id for operation in judged.applied for id in operation.skill_ids}
        undecided = [tuple(skill.id for skill in group.skills) for group in groups]
        return ConsolidationResult(
            applied=by_rule.applied + judged.applied,
            skipped=by_rule.skipped + judged.skipped,
            undecided=tuple(ids for ids in undecided if touched.isdisjoint(ids)),
            problem="; ".join(filter(None, (problem, judge_problem))),
        )

    def parse_consolidation_operations(self, data: object) -> list[ConsolidationOperation]:
        """Read operations as a model writes them; see `parse_consolidation_operations`."""
        return parse_consolidation_operations(data)

    def apply_operations(
        self, operations: Sequence[ConsolidationOperation], skillbook: Skillbook
    ) -> ConsolidationReport:
        """Carry operations out; see `apply_consolidation_operations`."""
        return apply_consolidation_operations(operations, skillbook)

    def _same_wording(self, skillbook: Skillbook) -> list[list[Skill]]:
        return same_wording(skillbook, within_section_only=self.config.within_section_only)

    def _similar_groups(self, skillbook: Skillbook) -> tuple[list[SimilarGroup], str]:
        """Return the groups of similar skills, or none and the reason where the model is out of reach."""
        try:
            self.detector.ensure_embeddings(skillbook)
        except Exception as error:
            # Embedders may be anybody's, so their errors are of any type; none may cost a skill or a run.
            _logger.warning("Similar skills were not looked for, no vectors could be made: %s", error)
            return [], f"no vectors: {error}"
        return groups_of_pairs(self.detector.detect_similar_pairs(skillbook)), ""

    def _judged(self, groups: Sequence[SimilarGroup], skillbook: Skillbook) -> tuple[ConsolidationReport, str]:
        """Have the skill manager judge the groups, in one call, and do what it says."""
        nothing = ConsolidationReport()
        if not groups or self.skill_manager is None:
            return nothing, ""
        if not isinstance(self.skill_manager, SkillConsolidatorLike):
            problem = f"{type(self.skill_manager).__name__} has no consolidate_skills"
            _logger.warning("%d groups of similar skills stay as they are: %s", len(groups), problem)
            return nothing, problem
        try:
            question = consolidation_prompt(groups)
            answer = finished(call_consolidator(BLOCKING, self.skill_manager, question))
        except Exception as error:
            # As above: the client behind a skill manager may be anybody's.
            _logger.warning("%d groups of similar skills stay as they are: %s", len(groups), error)
            return nothing, f"no judgement: {error}"
        fitting, unfit = _checked(parse_consolidation_operations(answer), groups, skillbook)
        similarities = {
            similarity_pair(pair.first.id, pair.second.id): pair.similarity for group in groups for pair in group.pairs
        }
        report = apply_consolidation_operations(fitting, skillbook, similarities=similarities)
        return ConsolidationReport(report.applied, (*unfit, *report.skipped)), ""


def _merge_of(group: Sequence[Skill]) -> MergeOp:
    """Return the merge of skills of one wording: the longest text stays, then the most helpful one."""
    kept = max(group, key=lambda skill: (len(skill.content), skill.helpful))
    return MergeOp(tuple(skill.id for skill in group), kept.id, kept.content, "the same wording")


def _checked(
    operations: Sequence[ConsolidationOperation], groups: Sequence[SimilarGroup], skillbook: Skillbook
) -> tuple[list[ConsolidationOperation], list[SkippedConsolidation]]:
    """Return the operations that fit what was asked, and the others with the reason."""
    fitting: list[ConsolidationOperation] = []
    unfit: list[SkippedConsolidation] = []
    group_of = {skill.id: group for group in groups for skill in group.skills}
    deleted: set[str] = set()
    for operation in operations:
        reason = _misfit(operation, group_of, deleted, skillbook)
        if reason:
            _logger.warning("%s of %s was skipped: %s", operation.type, operation.skill_ids, reason)
            unfit.append(SkippedConsolidation(operation, reason))
            continue
        if isinstance(operation, DeleteOp):
            deleted.add(operation.skill_id)
        fitting.append(operation)
    return fitting, unfit


def _misfit(
    operation: ConsolidationOperation,
    group_of: dict[str, SimilarGroup],
    deleted: set[str],
    skillbook: Skillbook,
) -> str:
    """Say why an operation does not fit what was asked; empty if it does."""
    groups = [group_of.get(id) for id in operation.skill_ids]
    group = groups[0] if groups else None
    if group is None or any(other is not group for other in groups):
        return "its skills are not of one group that was asked about"
    for skill in group.skills:
        now = skillbook.get_skill(skill.id)
        if skill.id in operation.skill_ids and (now is None or now.content != skill.content):
            return f"{skill.id!r} has changed since it was asked about"
    if isinstance(operation, DeleteOp) and deleted.issuperset(
        {skill.id for skill in group.skills} - {operation.skill_id}
    ):
        return "nothing of its group would be left"
    return ""
