"""Checks what a change to similar skills would lose: deciding values, and cases that would fail.

A merged text can lose a rule and still read well, and a model that judges texts does not notice it. So a change to
skills with cases is tested before it is made: all their cases are run with the new text. This module does not change a
skillbook.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ace.cases import check_passes, deciding_values, missing_values
from ace.deduplication.operations import (
    ConsolidationOperation,
    KeepOp,
    MergeOp,
    SkippedConsolidation,
    UpdateOp,
)
from ace.deduplication.wording import plain_words, stated_values
from ace.protocols.deduplication import CaseProverLike
from ace.skill import CaseCheck, Skill, SkillCase, join_cases

__all__ = ["Decisions", "Verdict", "lost_values", "verdict_on"]

_logger = logging.getLogger(__name__)


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
