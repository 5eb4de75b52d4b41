"""The proofs of the operations of one sample, one after the other: each in the book that those before it lead to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ace.calls.sample_context import needed
from ace.proof.asking import ProofSettings, Questions, by_itself
from ace.proof.draft import Draft, ProofNote, with_skill
from ace.proof.operation import OperationProof
from ace.proof.texts import texts_to_try, uncovered
from ace.proof.trace_facts import known_cases, sample_cases, values_to_hold
from ace.skill import join_cases
from ace.updates import UpdateOperation

if TYPE_CHECKING:
    from ace.calls.calling import Calling
    from ace.context import ACEStepContext

__all__ = ["BatchProofs"]

logger = logging.getLogger(__name__)


class BatchProofs:
    """The proofs of the operations that one sample has led to, in their order.

    Args:
        settings: The prover, and what the step was created with.
        calling: How the agent is called.
        ctx: The context of the sample.
        workers: How many questions that do not depend on each other are asked at once.
    """

    def __init__(self, settings: ProofSettings, calling: Calling, ctx: ACEStepContext, workers: int) -> None:
        self._questions = Questions(settings, calling, ctx, workers)
        self._prover = settings.prover
        self._ctx = ctx
        self._draft = Draft(list(needed(ctx.skillbook, "skillbook", self).skills()))

    @property
    def operations(self) -> Sequence[UpdateOperation]:
        """The operations that are to be applied."""
        return self._draft.operations

    @property
    def notes(self) -> Sequence[ProofNote]:
        """The outcomes of the proofs."""
        return self._draft.notes

    @property
    def asked(self) -> dict[str, str]:
        """The setting in which each case was last asked, by id; empty if the final test is to ask it."""
        return self._draft.asked

    async def ask_ahead(self, operations: Sequence[UpdateOperation]) -> None:
        """Ask the first question of each operation, with its text alone, at once.

        These are the questions that do not depend on what other operations and samples lead to. The prover remembers
        the outcomes, so `prove` does not ask them again.

        Args:
            operations: All operations of the sample, in their order.
        """
        values = Counter(frozenset(values_to_hold(operation.cases[0])) for operation in operations if operation.cases)
        works = []
        for operation in operations:
            proof = OperationProof(self._questions, self._draft, operation)
            if not operation.cases or not proof.is_tried:
                continue
            # A second operation with the same values may only add its case to the skill of the first one.
            if values[frozenset(values_to_hold(operation.cases[0]))] > 1 or proof.learned_meanwhile() is not None:
                continue
            text = next(texts_to_try(operation))
            _, skill = self._draft.with_text(operation, text, ())
            cases = [case for case in operation.cases[: self._questions.workers] if self._prover.can_judge(case)]
            if not any(uncovered(text, case) for case in cases):
                works += [partial(self._questions.one, case, by_itself(skill)) for case in cases]
        # So that the ids of new skills, which `prove` numbers again, do not depend on what was asked ahead.
        self._draft.number_again()
        await self._questions.calling.each(works, self._questions.workers)

    async def prove(self, operation: UpdateOperation) -> None:
        """Prove an operation, and add it to `operations` in the form in which it is to be applied."""
        if operation.type == "REMOVE":
            self._draft.skills = [skill for skill in self._draft.skills if skill.id != operation.skill_id]
        end = await OperationProof(self._questions, self._draft, operation).run()
        logger.debug("The operation %s %r is %s", operation.type, operation.content, end.value)

    def join_known(self) -> None:
        """Add the cases whose answers `KnownStep` found in the skillbook to the skills that know them."""
        # The lookup was before the lane, so the skill may have been removed or reworded since.
        draft, known = self._draft, known_cases(self._ctx)
        for case in sample_cases(self._ctx):
            if case.id not in known:
                continue
            skill = next((skill for skill in draft.skills if skill.id == known[case.id] and skill.is_active), None)
            if skill is None:
                logger.info("The skill %s, which knew case %s, has been removed since", known[case.id], case.id)
                continue
            answer, text = self._ctx.metadata.get("known_answers", {}).get(case.id, ("", skill.content))
            is_same = text == skill.content
            passed = self._prover.judged(case, True, answer) if is_same else case
            draft.skills = with_skill(draft.skills, skill.replace(cases=join_cases(skill.cases, (passed,))))
            seen = self._ctx.metadata.get("known_seen", {}).get(case.id)
            # If the skill had another text when it was asked, the final test asks again.
            draft.asked[case.id] = (seen or self._prover.setting(case, draft.skills)) if is_same else ""
            update = UpdateOperation("UPDATE", skill_id=skill.id, cases=(passed,))
            draft.operations += [update, UpdateOperation("TAG", skill_id=skill.id, metadata={"helpful": 1})]
            draft.notes.append(ProofNote(update, True, case.wrong, passed.answer, 0))
