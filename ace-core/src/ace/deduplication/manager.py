"""`DeduplicationManager`: merges duplicate skills."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ace._internal.arguments import checked_class, instance_of, with_method
from ace.calls.calling import BLOCKING, call_consolidator, finished
from ace.cases import check_passes, deciding_values, missing_values
from ace.deduplication.consolidation import (
    ConsolidationOperation,
    ConsolidationReport,
    DeleteOp,
    KeepOp,
    MergeOp,
    SkippedConsolidation,
    UpdateOp,
    apply_consolidation_operations,
    consolidation_prompt,
    merged_text,
    parse_consolidation_operations,
    pinned_problem,
    similarity_report,
)
from ace.deduplication.detector import SimilarGroup, SimilarityDetector, groups_of_pairs, same_wording
from ace.deduplication.wording import may_contradict, plain_words, stated_values
from ace.protocols.deduplication import CaseProverLike, DeduplicationConfig, EmbedderLike, SkillConsolidatorLike
from ace.skill import CaseCheck, Skill, SkillCase, join_cases, similarity_pair
from ace.skillbook import Skillbook

__all__ = ["ConsolidationResult", "Decisions", "DeduplicationManager", "Verdict", "lost_values", "verdict_on"]

_logger = logging.getLogger(__name__)
_LEAST_SKILLS = 2
"""With fewer skills there is nothing to compare, so no vector is made."""
_GROUPS_PER_QUESTION = 25


@dataclass(frozen=True, slots=True)
class ConsolidationResult:
    """The result of a consolidation."""

    applied: tuple[ConsolidationOperation, ...] = ()
    """The applied operations, in order."""
    skipped: tuple[SkippedConsolidation, ...] = ()
    """The skipped operations, which were invalid or would have broken a case, with the reasons."""
    undecided: tuple[tuple[str, ...], ...] = ()
    """The ids of similar skills without a decision, by group."""
    problem: str = ""
    """Why the model could not be called; empty if it could."""

    def __bool__(self) -> bool:
        """Return whether there is anything new to report."""
        return bool(self.applied or self.skipped or self.problem)

    def __str__(self) -> str:
        """Return a one-line summary for a log."""
        counts: dict[str, int] = {}
        for operation in self.applied:
            counts[operation.type] = counts.get(operation.type, 0) + 1
        done = ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing to do"
        line = f"{done}; {len(self.skipped)} skipped, {len(self.undecided)} groups undecided"
        return f"{line}; {self.problem}" if self.problem else line


@checked_class
class DeduplicationManager:
    """Finds similar skills and consolidates them.

    Skills with the same wording and the same numbers, codes and names are merged by rule. Other similar skills are
    judged by the skill manager, all in one call; without a skill manager they are not changed. With the rule `longest`
    of the settings, similar skills that cannot contradict each other are merged before that, without a model.

    A change to skills with cases is proven first: all their cases are run with the new text. A merge that breaks a case
    is skipped, and the decision to keep the skills is recorded with the reason. Without a prover, skills with cases are
    merged only if their texts differ in nothing but case, whitespace and punctuation.

    Args:
        config: The settings; None uses the defaults.
        skill_manager: Judges similar skills, if it has the method `consolidate_skills`. If None, a runner provides its
            own.
        embedder: The embedding model; by default the one of the settings.
        prover: Runs cases with an agent, such as `ace.proof.CaseProver`. If None, a runner provides one if its agent
            supports this.

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
        prover: CaseProverLike | None = None,
    ) -> None:
        if prover is not None:
            with_method("prover", prover, "outcome", advice="pass a CaseProver(agent)")
        if config is not None:
            instance_of("config", config, DeduplicationConfig)
        self.prover = prover
        self.config = config if config is not None else DeduplicationConfig()
        self.skill_manager = skill_manager
        self.detector = SimilarityDetector(self.config, embedder=embedder)

    def with_skill_manager(self, skill_manager: object) -> DeduplicationManager:
        """Return a manager that uses this skill manager, or self if it already has one.

        Both share the settings, the embedder and the vectors in memory.

        Args:
            skill_manager: Judges similar skills.
        """
        if self.skill_manager is not None:
            return self
        other = copy.copy(self)
        other.skill_manager = skill_manager
        return other

    def with_prover(self, prover: CaseProverLike) -> DeduplicationManager:
        """Return a manager that proves its merges with this prover, or self if it already has one.

        Both share the settings, the embedder and the vectors in memory.

        Args:
            prover: Runs cases.
        """
        if self.prover is not None:
            return self
        other = copy.copy(self)
        other.prover = prover
        return other

    def get_similarity_report(self, skillbook: Skillbook) -> str | None:
        """Return a text describing the similar skills of a skillbook, or None if there are none.

        Args:
            skillbook: The skillbook. Missing vectors are added to it; nothing else is changed.
        """
        if not self.config.enabled:
            return None
        same = self._same_wording(skillbook)
        similar, _ = self._similar_groups(skillbook)
        return similarity_report(same, similar) if same or similar else None

    def consolidate(self, skillbook: Skillbook) -> ConsolidationResult:
        """Merge duplicate skills, and have similar ones judged by the model.

        If the model cannot be reached, this is logged; skills are still merged by rule, and the others are not
        changed.

        Args:
            skillbook: The skillbook. With a store, `rollback` to the previous version undoes everything.

        Returns:
            The applied and the skipped operations, and the undecided skills.
        """
        if not self.config.enabled or len(skillbook.skills()) < _LEAST_SKILLS:
            return ConsolidationResult()
        by_rule, rule_problem = self._carried_out(self._by_rule(skillbook), skillbook)
        groups, problem = self._similar_groups(skillbook)
        similar = Decisions(self.prover)
        if self.config.rule == "longest":
            self._merge_into_longest(groups, similar)
        merged, merge_problem = self._carried_out(similar, skillbook)
        if merged.applied:
            groups, _ = self._similar_groups(skillbook)
        judged, judge_problem = self._judged(groups[:_GROUPS_PER_QUESTION], skillbook)
        touched = {id for operation in judged.applied for id in operation.skill_ids}
        undecided = [tuple(skill.id for skill in group.skills) for group in groups]
        return ConsolidationResult(
            applied=by_rule.applied + merged.applied + judged.applied,
            skipped=by_rule.skipped + merged.skipped + judged.skipped,
            undecided=tuple(ids for ids in undecided if touched.isdisjoint(ids)),
            problem="; ".join(filter(None, (rule_problem, problem, merge_problem, judge_problem))),
        )

    def parse_consolidation_operations(self, data: object) -> list[ConsolidationOperation]:
        """Parse operations from the answer of a model; see `parse_consolidation_operations`."""
        return parse_consolidation_operations(data)

    def apply_operations(
        self, operations: Sequence[ConsolidationOperation], skillbook: Skillbook
    ) -> ConsolidationReport:
        """Apply operations; see `apply_consolidation_operations`.

        Changes to the text of skills with cases are proven first.
        """
        decisions = Decisions(self.prover)
        for operation in operations:
            if not isinstance(operation, MergeOp | UpdateOp):
                decisions.allow(operation)
                continue
            skills = [skill for id in operation.skill_ids if (skill := skillbook.get_skill(id)) is not None]
            # Operations with unknown or pinned skills are rejected when they are applied.
            if (
                len(skills) < len(operation.skill_ids)
                or pinned_problem(operation, skills)
                or decisions.is_proven(operation, _new_text(operation, skills), skills)
            ):
                decisions.allow(operation)
        return self._carried_out(decisions, skillbook)[0]

    def _carried_out(
        self,
        decisions: Decisions,
        skillbook: Skillbook,
        similarities: Mapping[tuple[str, str], float] | None = None,
    ) -> tuple[ConsolidationReport, str]:
        """Apply the decisions. Return the report, and why cases could not be run, if so."""
        report = apply_consolidation_operations(
            decisions.operations, skillbook, similarities=similarities, results=decisions.results
        )
        return (
            ConsolidationReport(report.applied, (*decisions.skipped, *report.skipped)),
            "; ".join(dict.fromkeys(decisions.problems)),
        )

    def _by_rule(self, skillbook: Skillbook) -> Decisions:
        """Choose which of the skills with the same wording to keep: a pinned one, the longest, or the most helpful."""
        decisions = Decisions(self.prover)
        for group in self._same_wording(skillbook):
            kept = max(group, key=lambda skill: (skill.pinned, len(skill.content), skill.helpful))
            taken = [
                skill
                for skill in group
                if skill is kept
                or (
                    not skill.pinned
                    and decisions.is_proven(_merge_of([kept, skill], kept), kept.content, [kept, skill])
                )
            ]
            if len(taken) > 1:
                decisions.allow(_merge_of(taken, kept))
        return decisions

    def _merge_into_longest(self, groups: Sequence[SimilarGroup], decisions: Decisions) -> None:
        """Choose the similar skills of each group to merge. The longest text and the oldest id are kept."""
        for group in groups:
            longest = max(group.skills, key=lambda skill: (skill.pinned, len(skill.content)))
            joining = [longest, *_joining(longest, group)]
            kept = longest if longest.pinned else min(joining, key=lambda skill: (skill.created_at, skill.id))
            taken = [kept]
            for skill in joining:
                merge = _merge_of([kept, skill], kept, content=longest.content)
                if skill is not kept and decisions.is_proven(merge, longest.content, [kept, skill], keeps_values=True):
                    taken.append(skill)
            if len(taken) > 1 and longest in taken:
                decisions.allow(_merge_of(taken, kept, "similar; the longest text is kept", longest.content))

    def _same_wording(self, skillbook: Skillbook) -> list[list[Skill]]:
        return same_wording(skillbook, within_section_only=self.config.within_section_only)

    def _similar_groups(self, skillbook: Skillbook) -> tuple[list[SimilarGroup], str]:
        """Return the groups of similar skills, or none and the reason if the embedding model cannot be reached."""
        try:
            self.detector.ensure_embeddings(skillbook)
        except Exception as error:
            # A third-party embedder may raise any error, which must not lose a skill or end the run.
            _logger.warning("Skipped the search for similar skills, because embedding failed: %s", error)
            return [], f"no vectors: {error}"
        return groups_of_pairs(self.detector.detect_similar_pairs(skillbook)), ""

    def _judged(self, groups: Sequence[SimilarGroup], skillbook: Skillbook) -> tuple[ConsolidationReport, str]:
        """Have the skill manager judge the groups in one call, and apply its decisions."""
        nothing = ConsolidationReport()
        if not groups or self.skill_manager is None:
            return nothing, ""
        if not isinstance(self.skill_manager, SkillConsolidatorLike):
            problem = f"{type(self.skill_manager).__name__} has no consolidate_skills"
            _logger.warning("%d groups of similar skills were not changed: %s", len(groups), problem)
            return nothing, problem
        try:
            question = consolidation_prompt(groups)
            answer = finished(call_consolidator(BLOCKING, self.skill_manager, question))
        except Exception as error:
            # The client of a skill manager may be third-party code too, and raise any error.
            _logger.warning("%d groups of similar skills were not changed: %s", len(groups), error)
            return nothing, f"no judgement: {error}"
        decisions = Decisions(self.prover)
        group_of = {skill.id: group for group in groups for skill in group.skills}
        for operation in _fitting(parse_consolidation_operations(answer), group_of, skillbook, decisions):
            self._decide(operation, group_of, decisions)
        similarities = {
            similarity_pair(pair.first.id, pair.second.id): pair.similarity for group in groups for pair in group.pairs
        }
        return self._carried_out(decisions, skillbook, similarities)

    def _decide(
        self, operation: ConsolidationOperation, group_of: Mapping[str, SimilarGroup], decisions: Decisions
    ) -> None:
        """Allow or reject an operation of the model, which must not lose a deciding value or break a case."""
        group = group_of[operation.skill_ids[0]]
        by_id = {skill.id: skill for skill in group.skills}
        skills = [by_id[id] for id in operation.skill_ids]
        if isinstance(operation, DeleteOp) and not skills[0].cases:
            rest = "\n".join(skill.content for skill in group.skills if skill.id != operation.skill_id)
            lost = lost_values(rest, skills)
            if lost:
                decisions.refuse(operation, lost)
            else:
                decisions.allow(operation)
            return
        if isinstance(operation, DeleteOp):
            # The cases of a removed skill must pass with the skill that makes it superfluous.
            kept = _nearest(skills[0], group)
            reasoning = operation.reasoning or f"{kept.id} already covers it"
            operation, skills = _merge_of([kept, skills[0]], kept, reasoning), [kept, skills[0]]
        if isinstance(operation, KeepOp) or decisions.is_proven(
            operation, _new_text(operation, skills), skills, keeps_values=True
        ):
            decisions.allow(operation)


def _merge_of(group: Sequence[Skill], kept: Skill, reasoning: str = "the same wording", content: str = "") -> MergeOp:
    return MergeOp(tuple(skill.id for skill in group), kept.id, content or kept.content, reasoning)


def _joining(longest: Skill, group: SimilarGroup) -> Iterator[Skill]:
    """Yield the skills of a group that can be merged into its longest one without a model."""
    for skill in group.skills:
        # A group may connect skills that are not similar to each other.
        is_similar = skill is not longest and group.has_pair(longest, skill)
        if is_similar and not skill.pinned and not may_contradict(longest.content, skill.content):
            yield skill


def _new_text(operation: MergeOp | UpdateOp, skills: Sequence[Skill]) -> str:
    """Return the resulting text of an operation."""
    if isinstance(operation, UpdateOp):
        return operation.new_content
    content = operation.merged_content
    return content if content.strip() else merged_text(skills)


def _nearest(skill: Skill, group: SimilarGroup) -> Skill:
    """Return the most similar skill of the group."""
    for pair in sorted(group.pairs, key=lambda pair: -pair.similarity):
        if skill in (pair.first, pair.second):
            return pair.second if pair.first is skill else pair.first
    return next(other for other in group.skills if other is not skill)


def _fitting(
    operations: Sequence[ConsolidationOperation],
    group_of: Mapping[str, SimilarGroup],
    skillbook: Skillbook,
    decisions: Decisions,
) -> Iterator[ConsolidationOperation]:
    """Yield the operations that match the groups that were judged; reject the others, with the reason."""
    deleted: set[str] = set()
    for operation in operations:
        reason = _misfit(operation, group_of, deleted, skillbook)
        if reason:
            decisions.refuse(operation, reason)
            continue
        if isinstance(operation, DeleteOp):
            deleted.add(operation.skill_id)
        yield operation


def _misfit(
    operation: ConsolidationOperation,
    group_of: Mapping[str, SimilarGroup],
    deleted: set[str],
    skillbook: Skillbook,
) -> str:
    """Return why an operation does not match the groups that were judged; empty if it does."""
    groups = [group_of.get(id) for id in operation.skill_ids]
    group = groups[0] if groups else None
    if group is None or any(other is not group for other in groups):
        return "its skills do not belong to one of the judged groups"
    for skill in group.skills:
        now = skillbook.get_skill(skill.id)
        if skill.id in operation.skill_ids and (now is None or now.content != skill.content):
            return f"{skill.id!r} has changed since it was judged"
    if problem := pinned_problem(operation, group.skills):
        return problem
    if isinstance(operation, DeleteOp) and deleted.issuperset(
        {skill.id for skill in group.skills} - {operation.skill_id}
    ):
        return "it would remove the last skill of its group"
    return ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on whether skills may share a text."""

    reason: str = ""
    """Why they may not; empty if they may."""
    breaks_case: bool = False
    """Whether the reason is a failed case, so that trying again is pointless."""
    results: tuple[SkillCase, ...] = ()
    """The cases that were run with the new text, with their results."""
    problem: str = ""
    """Why the cases could not be run; empty if they could."""


class Decisions:
    """Operations, divided into those that are allowed and those that are rejected.

    Args:
        prover: Runs cases with an agent; None if there is no agent.
    """

    def __init__(self, prover: CaseProverLike | None) -> None:
        self._prover = prover
        self.operations: list[ConsolidationOperation] = []
        """The allowed operations; decisions to keep skills come first, so that a merge inherits them."""
        self.skipped: list[SkippedConsolidation] = []
        """The rejected operations, which would lose something."""
        self.results: dict[str, tuple[SkillCase, ...]] = {}
        """The cases that were run, by the id of the skill to keep."""
        self.problems: list[str] = []
        """Why cases could not be run."""

    def allow(self, operation: ConsolidationOperation) -> None:
        """Allow an operation without a proof."""
        self.operations.append(operation)

    def refuse(self, operation: ConsolidationOperation, reason: str) -> None:
        """Reject an operation."""
        _logger.warning("%s of %s was skipped: %s", operation.type, operation.skill_ids, reason)
        self.skipped.append(SkippedConsolidation(operation, reason))

    def is_proven(
        self, operation: MergeOp | UpdateOp, text: str, skills: Sequence[Skill], *, keeps_values: bool = False
    ) -> bool:
        """Decide whether the skills may share the text; if not, reject the operation with the reason.

        If a case would break, the decision to keep the skills is recorded, so that they are not judged again.

        Args:
            operation: The operation; this method does not allow it.
            text: Its resulting text.
            skills: Its skills; the first one receives the text.
            keeps_values: Whether the text must contain every number, code and name of the skills.
        """
        verdict = verdict_on(text, skills, self._prover, keeps_values=keeps_values)
        if verdict.problem:
            self.problems.append(verdict.problem)
        if verdict.reason:
            self.refuse(operation, verdict.reason)
            if verdict.breaks_case and isinstance(operation, MergeOp):
                self.operations.insert(0, KeepOp(operation.skill_ids, verdict.reason))
            return False
        known = self.results.get(skills[0].id, ())
        self.results[skills[0].id] = join_cases(known, verdict.results)
        return True


def lost_values(text: str, skills: Sequence[Skill]) -> str:
    """Return which numbers, codes and names of the skills a text lacks; empty if it contains all of them.

    Args:
        text: The text of the merged skill.
        skills: The skills to merge.
    """
    for skill in skills:
        lost = [value for value in sorted(stated_values(skill.content)) if not _holds(text, value)]
        if lost:
            return f"{', '.join(map(repr, lost))} of {skill.id!r} would be lost"
    return ""


def verdict_on(
    text: str, skills: Sequence[Skill], prover: CaseProverLike | None, *, keeps_values: bool = True
) -> Verdict:
    """Decide whether skills, which may have cases, can share a text.

    Args:
        text: The proposed text.
        skills: The skills; the first one receives the text.
        prover: Runs cases; without one, only texts that differ in nothing but case, whitespace and punctuation may be
            merged.
        keeps_values: Whether the text must contain every number, code and name of the skills.
    """
    for skill, case in _cases_of(skills):
        lost = set(missing_values(text, case)) - set(missing_values(skill.content, case))
        if lost:
            return Verdict(
                f"case {case.id} ({case.question!r:.80}) needs {', '.join(map(repr, sorted(lost)))}, "
                "which would be lost",
                breaks_case=True,
            )
    lost_value = lost_values(text, skills) if keeps_values else ""
    if lost_value:
        return Verdict(lost_value)
    cases = join_cases(*(skill.cases for skill in skills))
    if not cases:
        return Verdict()
    if prover is None:
        return _without_proof(text, skills, "no agent was given to run its cases with")
    return _Proof(prover, skills[0].replace(content=text, cases=cases), skills).verdict()


def _without_proof(text: str, skills: Sequence[Skill], why: str) -> Verdict:
    """Allow changes that need no proof: the same text, with cases that check the same values or values in the text."""
    if any(plain_words(skill.content) != plain_words(text) for skill in skills):
        return Verdict(f"it is not proven: {why}")
    if any(stated_values(skill.content) != stated_values(text) for skill in skills):
        return Verdict(f"it is not proven, and the texts differ in a name or code: {why}")
    decided_by = {frozenset(value.casefold() for value in _decided(skill.cases)) for skill in skills if skill.cases}
    if len(decided_by) > 1 and any(missing_values(text, case) for _, case in _cases_of(skills)):
        return Verdict(f"it is not proven, and the cases are decided by different values: {why}")
    return Verdict()


class _Proof:
    """Runs the cases of skills with the merged skill.

    Args:
        prover: Runs the cases.
        merged: The merged skill.
        skills: The current skills.
    """

    def __init__(self, prover: CaseProverLike, merged: Skill, skills: Sequence[Skill]) -> None:
        self._prover = prover
        self._merged = merged
        self._skills = skills

    def verdict(self) -> Verdict:
        results: list[SkillCase] = []
        try:
            for case in self._merged.cases:
                outcome = self._prover.outcome(case, [self._merged])
                if outcome.passed is None:
                    return self._unproven(f"the answer to case {case.id} ({case.question!r:.80}) could not be judged")
                if not outcome.passed and self._passed_before(case):
                    effect = f"case {case.id} ({case.question!r:.80}) would be answered {self._quoted(outcome.answer)}"
                    return Verdict(effect, breaks_case=True)
                results.append(self._with_result(case, passed=outcome.passed))
        except Exception as error:
            # The agent and its client may be third-party code and raise any error, which must not lose a skill.
            _logger.warning("Cases of %s could not be run: %s", ", ".join(s.id for s in self._skills), error)
            return replace(self._unproven(f"its cases could not be run: {error}"), problem=f"no proof: {error}")
        return Verdict(results=tuple(results))

    def _quoted(self, answer: str) -> str:
        """Return the answer to store, or nothing if it is unknown which parts of it must not be stored."""
        hidden = getattr(self._prover, "hidden", None)
        return f"{hidden(answer)!r:.80}" if callable(hidden) else "incorrectly"

    def _passed_before(self, case: SkillCase) -> bool:
        """Return whether a case that now fails passed with one of its skills; if not, the change does not break it.

        A failure with the whole skillbook may be caused by the very skill to merge with, so the skill is tested alone.
        """
        holders = [skill for skill in self._skills if any(other.id == case.id for other in skill.cases)]
        if any(other.last_result == "passed" for skill in holders for other in skill.cases if other.id == case.id):
            return True
        # An answer that cannot be judged counts as passed: nothing shows that the case failed before.
        return any(self._prover.outcome(case, [skill]).passed is not False for skill in holders)

    def _unproven(self, why: str) -> Verdict:
        return _without_proof(self._merged.content, self._skills, why)

    def _with_result(self, case: SkillCase, *, passed: bool) -> SkillCase:
        model: object = getattr(self._prover, "model", "")
        return replace(
            case,
            last_result="passed" if passed else "failed",
            last_run_at=datetime.now(UTC).isoformat(timespec="seconds"),
            model=model if isinstance(model, str) else "",
            answer="",  # a prover may be third-party code, and only an agent's client knows what must not be stored
        )


def _cases_of(skills: Sequence[Skill]) -> Iterator[tuple[Skill, SkillCase]]:
    return ((skill, case) for skill in skills for case in skill.cases)


def _decided(cases: Sequence[SkillCase]) -> set[str]:
    return {value for case in cases for value in deciding_values(case)}


def _holds(text: str, value: str) -> bool:
    """Return whether a text contains a value: a number in any notation, everything else literally as a whole word."""
    if not any(letter.isalpha() for letter in value) and check_passes(CaseCheck("contains", value), text):
        return True
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None
