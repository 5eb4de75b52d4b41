"""The proof of one operation: from the text that a role has written to what is applied, state by state."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from ace.cases.values import with_example
from ace.proof.asking import Questions
from ace.proof.draft import Attempt, Draft, ProofNote, with_skill
from ace.proof.lookup import case_holders
from ace.proof.regression import Regression
from ace.proof.texts import narrowness, texts_to_try
from ace.proof.trace_facts import holds_values, values_to_hold, was_corrected
from ace.skill import Skill, SkillCase, join_cases
from ace.updates import UpdateOperation

if TYPE_CHECKING:
    from ace.proof.prover import CaseOutcome

__all__ = ["TRANSITIONS", "OperationProof", "ProofState"]


class ProofState(Enum):
    """Where an operation is. The first five have an action in `OperationProof`; the others are ends."""

    WRITTEN = "written"
    """A role has written it. Nothing was asked."""
    TRIED = "tried"
    """The question of its case was asked with its text alone."""
    FAILED = "failed"
    """Neither its text nor one of the reflector passes."""
    PASSED = "passed"
    """A text passes alone, or nothing can judge the answer."""
    BREAKS = "breaks"
    """With it, a case of another skill fails that passes without it."""

    KEPT = "kept"
    """It is applied, with the results of its cases."""
    PENDING = "pending"
    """It is applied with the text of the role and the reason, and no agent is shown it."""
    DROPPED = "dropped"
    """It is not applied; the history says why."""
    JOINED = "joined"
    """Another sample has taught the same meanwhile: that skill gets its cases."""
    UNTRIED = "untried"
    """It has no case, or will not be applied anyway, so it is passed on as it is."""


TRANSITIONS: Final[Mapping[ProofState, frozenset[ProofState]]] = {
    ProofState.WRITTEN: frozenset({ProofState.TRIED, ProofState.JOINED, ProofState.UNTRIED}),
    ProofState.TRIED: frozenset({ProofState.PASSED, ProofState.FAILED}),
    ProofState.FAILED: frozenset({ProofState.PASSED, ProofState.PENDING, ProofState.KEPT, ProofState.DROPPED}),
    ProofState.PASSED: frozenset({ProofState.KEPT, ProofState.BREAKS}),
    ProofState.BREAKS: frozenset({ProofState.KEPT, ProofState.DROPPED}),
}
"""The states that may follow each state; an end has none."""


class OperationProof:
    """Takes one operation through the states of `ProofState`. Each state but the ends has one action, in their order.

    Args:
        questions: Asks the agent and the reflector.
        draft: What the proofs before this one have led to; this one adds to it.
        operation: As a role has written it; its end is added to the draft.
    """

    state = ProofState.WRITTEN

    def __init__(self, questions: Questions, draft: Draft, operation: UpdateOperation) -> None:
        self._questions = questions
        self._prover = questions.prover
        self._draft = draft
        self._operation = operation
        self._old = draft.changed_by(operation)
        self._regression = Regression(questions, draft, operation)
        self._written: Attempt
        """What the role wrote, which a failed proof does not change."""
        self._attempt: Attempt
        """The best text so far."""
        self._retries = -1
        """The number of texts that were tried after the first one."""
        self._broken: CaseOutcome

    async def run(self) -> ProofState:
        """Take the operation to its end."""
        actions: Mapping[ProofState, Callable[[], Awaitable[ProofState]]] = {
            ProofState.WRITTEN: self._try,
            ProofState.TRIED: self._reword,
            ProofState.FAILED: self._try_example,
            ProofState.PASSED: self._compare,
            ProofState.BREAKS: self._repair,
        }
        while self.state in actions:
            following = await actions[self.state]()
            assert following in TRANSITIONS[self.state], (self.state, following)
            self.state = following
        return self.state

    @property
    def is_tried(self) -> bool:
        """Whether the operation writes a text that can be applied.

        What `ApplyStep` will reject or report is passed on untried, so that the history says why.
        """
        operation = self._operation
        if operation.type not in ("ADD", "UPDATE") or not operation.content or operation.pending:
            return False
        return (operation.type == "ADD" or self._old is not None) and not self._questions.is_guarded(operation)

    def learned_meanwhile(self) -> Skill | None:
        """Return a skill that an overlapping sample has added and whose case has the same deciding values."""
        if self._operation.type != "ADD" or "case_holders" not in self._questions.ctx.metadata:
            return None
        for skill in self._draft.skills:
            if all(self._is_new_holder(skill, case) for case in self._operation.cases):
                return skill
        return None

    def _is_new_holder(self, skill: Skill, case: SkillCase) -> bool:
        values = set(values_to_hold(case))
        return (
            was_corrected(case)
            and bool(values)
            and skill.id not in case_holders(self._questions.ctx).get(case.id, ())
            and holds_values(skill, tuple(values))
            and any(set(values_to_hold(other)) == values for other in skill.cases)
            and not any(other.id == case.id for made in self._draft.operations for other in made.cases)
        )

    async def _try(self) -> ProofState:
        """WRITTEN: ask with its text alone, first without the answer to its own case."""
        operation, draft = self._operation, self._draft
        if not self.is_tried:
            draft.operations.append(operation)
            return ProofState.UNTRIED
        if not operation.cases:
            draft.skills, _ = draft.with_text(operation, operation.content or "", ())
            draft.operations.append(operation)
            return ProofState.UNTRIED
        # Samples are reflected on concurrently, so an overlapping one may have taught the same. Only here, in the lane,
        # is the book current enough to tell.
        knows = self.learned_meanwhile()
        if knows is not None:
            return self._join(knows)
        for text in texts_to_try(operation):
            self._attempt = await self._alone(text)
            if self._attempt.passed is not False:
                break
        self._written = self._attempt
        return ProofState.TRIED

    async def _reword(self) -> ProofState:
        """TRIED: ask the reflector for a better text, if the text has failed or only fits its case."""
        case = self._operation.cases[0]
        # Where only a judge can tell, each further text costs three calls, and its verdict says little about the next.
        for retry in range(self._questions.settings.retries if case.check.kind != "judge" else 0):
            problem = self._attempt.problem or narrowness(self._attempt.text, case)
            if not problem:
                break
            better = await self._questions.better_text(self._operation, self._attempt, problem, retry)
            tried = (self._written.text, self._attempt.text)
            if not better or better in tried or self._questions.is_guarded(self._operation, better):
                break
            again = await self._alone(better)
            if again.passed is not False or self._attempt.passed is False:
                self._attempt = again
        return ProofState.FAILED if self._attempt.passed is False else ProofState.PASSED

    async def _try_example(self) -> ProofState:
        """FAILED: ask with the worked example, which is last, because a rule without an example covers more tasks."""
        longer = with_example(self._written.text, self._operation.cases[0])
        if longer != self._written.text and not self._questions.is_guarded(self._operation, longer):
            self._attempt = await self._alone(longer)
            if self._attempt.passed is not False:
                return ProofState.PASSED
        match self._questions.settings.unproven:
            case "drop":
                return self._drop("the case that taught it fails with it")
            case unproven:
                return self._apply_unproven(is_pending=unproven == "pending")

    async def _compare(self) -> ProofState:
        """PASSED: ask the cases of the book with which it competes."""
        broken = await self._regression.broken_by(self._attempt)
        if broken is None:
            return self._keep()
        self._broken = broken
        return ProofState.BREAKS

    async def _repair(self) -> ProofState:
        """BREAKS: give it or the skill that it breaks a worked example."""
        case, answer = self._broken.case, self._prover.hidden(self._broken.answer)
        repaired = await self._regression.repaired(self._attempt, self._broken)
        if repaired is None:
            return self._drop(f"it breaks case {case.id}: with it, {case.question!r} was answered {answer!r}")
        self._attempt = repaired
        return self._keep()

    async def _alone(self, text: str) -> Attempt:
        self._retries += 1
        return await self._questions.alone(self._draft, self._operation, text)

    def _keep(self) -> ProofState:
        operation, attempt, asked = self._operation, self._attempt, self._draft.asked
        older = () if self._old is None else self._old.cases
        # A new text resets the results of the older cases, except those that have passed with it.
        kept = []
        for case in older:
            if case.last_result == "passed" and asked.get(case.id) == self._prover.setting(case, attempt.skills):
                kept.append(self._prover.judged(case, True, case.answer))
            elif self._prover.can_judge(case):
                asked[case.id] = ""  # the final test asks it with the new text
        metadata = dict(operation.metadata)
        if attempt.passed and operation.type == "ADD":
            metadata["helpful"] = max(1, _count(metadata.get("helpful")))
        cases = join_cases(kept, self._results(attempt))
        done = dataclasses.replace(operation, content=attempt.text, cases=cases, metadata=metadata)
        self._add(done, attempt.passed)
        proven = attempt.skill.replace(cases=join_cases(older, done.cases))
        self._draft.skills = with_skill(attempt.skills, proven)
        return ProofState.KEPT

    def _apply_unproven(self, *, is_pending: bool) -> ProofState:
        """Apply the text of the role: pending, for a second run or a person, or as it is."""
        written = self._written
        reason = self._prover.hidden(f"the case that taught it fails with it. {written.problem}")
        cases = self._results(written)
        if is_pending:
            self._forget_asked()  # no agent is shown the skill, so the final test does not ask
        else:
            self._draft.skills = written.skills
        pending = reason if is_pending else ""
        self._add(dataclasses.replace(self._operation, content=written.text, cases=cases, pending=pending), False)
        return ProofState.PENDING if is_pending else ProofState.KEPT

    def _drop(self, reason: str) -> ProofState:
        self._forget_asked()
        self._add(self._operation, self._attempt.passed, reason)  # so that the history lists it as skipped
        return ProofState.DROPPED

    def _join(self, skill: Skill) -> ProofState:
        """Add the cases to a skill that has the same deciding values; only the final test asks them."""
        cases = self._operation.cases
        for case in cases:
            if self._prover.can_judge(case):
                self._draft.asked[case.id] = ""
        self._draft.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=tuple(cases)))
        self._draft.skills = with_skill(self._draft.skills, skill.replace(cases=join_cases(skill.cases, cases)))
        return ProofState.JOINED

    def _add(self, operation: UpdateOperation, passed: bool | None, reason: str = "") -> None:
        before, after = self._operation.cases[0].wrong, self._prover.hidden(self._attempt.answer)
        self._draft.operations.append(operation)
        self._draft.notes.append(ProofNote(operation, passed, before, after, self._retries, reason))

    def _forget_asked(self) -> None:
        for case in self._operation.cases:
            self._draft.asked.pop(case.id, None)

    def _results(self, attempt: Attempt) -> Sequence[SkillCase]:
        """Return the cases of the operation with the results of an attempt."""
        found = {
            id: self._prover.judged(outcome.case, outcome.passed, outcome.answer)
            for id, outcome in attempt.outcomes.items()
        }
        return tuple(found.get(case.id, case) for case in self._operation.cases)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
