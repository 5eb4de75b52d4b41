"""Which case a change breaks that has passed so far, and how to repair it with a worked example."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ace.cases.values import competes, with_example
from ace.proof.asking import Questions, in_parts
from ace.proof.draft import Attempt, Draft, with_skill
from ace.retrieval import LexicalRanker
from ace.skill import Skill, SkillCase, join_cases
from ace.updates import UpdateOperation

if TYPE_CHECKING:
    from ace.proof.prover import CaseOutcome

__all__ = ["Regression"]

logger = logging.getLogger(__name__)

_NEIGHBOURS: Final = 20
"""The number of similar skills whose cases a new skill may be compared with; in larger books, the others share too few
words with it."""


class Regression:
    """The cases of the book with which one change competes.

    Args:
        questions: Asks them.
        draft: The book without the change.
        operation: The change.
    """

    def __init__(self, questions: Questions, draft: Draft, operation: UpdateOperation) -> None:
        self._questions = questions
        self._prover = questions.prover
        self._draft = draft
        self._operation = operation
        self._old = draft.changed_by(operation)

    async def broken_by(self, attempt: Attempt) -> CaseOutcome | None:
        """Return the outcome of a case that has passed so far and that the change breaks; None if it breaks none.

        Only cases with which the change competes are asked. A model's answers vary, so a case counts as broken only if
        it fails twice with the change and passes twice without it. One that fails without it too is recorded.
        """
        # An UPDATE may break the cases of its own skill, so one is asked even if no call is left.
        left = self._questions.settings.calls - len(attempt.outcomes)
        most = min(self._questions.settings.regression_cases, max(left, 0 if self._old is None else 1))
        due = self._competing_cases(attempt, most)
        for part in in_parts(list(due), self._questions.workers):
            # In the order of similarity, although they were asked at once: the first broken one decides.
            for outcome in await self._questions.each(part, attempt.skills):
                case = outcome.case
                if outcome.passed is not False:
                    self._draft.asked[case.id] = due[case]
                    continue
                without = await self._questions.one(case, self._draft.skills)
                if without.passed is False:
                    self._note_failed(without)
                elif await self._is_reproduced(case, attempt.skills):
                    return outcome
                else:
                    self._draft.asked[case.id] = due[case]
                    logger.info("Case %s failed once beside %r, which is not held against it", case.id, attempt.text)
        return None

    async def _is_reproduced(self, case: SkillCase, skills: Sequence[Skill]) -> bool:
        """Return whether a case fails again with a change, and passes again without it."""
        again = await self._questions.one(case, skills, attempt=2)
        if again.passed is not False:
            return False
        return (await self._questions.one(case, self._draft.skills, attempt=2)).passed is True

    def _competing_cases(self, attempt: Attempt, most: int) -> Mapping[SkillCase, str]:
        """Return cases that have passed and with which a change competes, with their settings: first its own ones."""
        old = self._old
        others = [skill for skill in self._draft.skills if skill.cases and skill is not old]
        similar = LexicalRanker().best(attempt.text, others, _NEIGHBOURS)
        own = {case.id for case in self._operation.cases}
        due: dict[SkillCase, str] = {}
        for skill in (*([] if old is None else [old]), *similar):
            for case in skill.cases:
                if len(due) == most:
                    return due
                if case.id in own or case.last_result != "passed" or not self._prover.can_judge(case):
                    continue
                if skill is old or competes(attempt.text, case, [skill.content]):
                    shown = self._prover.shown(case.question, attempt.skills)
                    if any(other.id == attempt.skill.id for other in shown):
                        due[case] = self._prover.setting(case, attempt.skills)
                        own.add(case.id)
        return due

    async def repaired(self, attempt: Attempt, broken: CaseOutcome) -> Attempt | None:
        """Return an attempt with a worked example with which a broken case passes again; None if there is none."""
        # The example may restrict the change enough to keep the other skill as it is. Only then is that changed.
        return await self._with_own_example(attempt, broken.case) or await self._with_other_example(
            attempt, broken.case
        )

    async def _with_own_example(self, attempt: Attempt, case: SkillCase) -> Attempt | None:
        text = with_example(attempt.text, self._operation.cases[0])
        if text == attempt.text or self._questions.is_guarded(self._operation, text):
            return None
        again = await self._questions.alone(self._draft, self._operation, text)
        if again.passed is False or (await self._questions.one(case, again.skills)).passed is False:
            return None
        self._draft.asked[case.id] = self._prover.setting(case, again.skills)
        return again

    async def _with_other_example(self, attempt: Attempt, case: SkillCase) -> Attempt | None:
        holders = [skill for skill in self._draft.holders(case) if skill.id != attempt.skill.id and not skill.pinned]
        if len(holders) != 1:
            return None
        holder = holders[0]
        change = UpdateOperation("UPDATE", skill_id=holder.id, content=with_example(holder.content, case))
        skills = with_skill(attempt.skills, holder.replace(content=change.content))
        if change.content == holder.content or self._questions.is_guarded(dataclasses.replace(change, cases=(case,))):
            return None
        outcome = await self._questions.one(case, skills)
        if not outcome.passed:
            return None
        # Both skills change in the transaction of the sample, so no reader finds the case broken in between.
        passed = self._prover.judged(case, True, outcome.answer)
        for other in holder.cases:
            self._draft.asked[other.id] = ""  # the final test asks it with the new text
        self._draft.asked[case.id] = self._prover.setting(case, skills)
        self._draft.operations.append(dataclasses.replace(change, cases=(passed,)))
        repaired = holder.replace(content=change.content, cases=join_cases(holder.cases, (passed,)))
        return dataclasses.replace(attempt, skills=with_skill(skills, repaired))

    def _note_failed(self, outcome: CaseOutcome) -> None:
        """Record that a case which has passed before fails with the book as it is, whatever is learned now."""
        case = outcome.case
        logger.info("Case %s failed before this change: %r was answered %r", case.id, case.question, outcome.answer)
        self._draft.asked[case.id] = ""  # the final test asks it, and may give its skill the example
        failed = self._prover.judged(case, False, outcome.answer)
        for skill in self._draft.holders(case):
            self._draft.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=(failed,)))
