"""Asks the questions of the proofs of one sample: about a text alone, in a book, and for a better text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ace.calls.calling import Calling, call_reflector
from ace.calls.model_calls import call_scope, current_call_scope
from ace.calls.sample_context import needed, stop_if_cancelled
from ace.proof.draft import Attempt, Draft
from ace.proof.texts import problem_with_answer, uncovered
from ace.proof.trace_facts import known_of_task
from ace.skill import Skill, SkillCase

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.proof.leakage_guard import LeakageGuard
    from ace.proof.prover import CaseOutcome, CaseProver
    from ace.protocols.roles import ReflectorLike
    from ace.skill import Unproven
    from ace.updates import UpdateOperation

__all__ = ["ProofSettings", "Questions", "by_itself", "in_parts"]


@dataclass(frozen=True, slots=True)
class ProofSettings:
    """What `ProveStep` was created with, as far as the proofs of a sample need it; see there."""

    prover: CaseProver
    reflector: ReflectorLike | None
    guard: LeakageGuard | None
    retries: int
    regression_cases: int
    calls: int
    """The maximum number of calls for one operation, without the final test."""
    unproven: Unproven


class Questions:
    """Asks the agent and the reflector about the operations of one sample.

    Args:
        settings: The prover, and what the step was created with.
        calling: How the agent is called.
        ctx: The context of the sample.
        workers: How many questions that do not depend on each other are asked at once.
    """

    def __init__(self, settings: ProofSettings, calling: Calling, ctx: ACEStepContext, workers: int) -> None:
        self.settings = settings
        self.prover = settings.prover
        self.calling = calling
        self.ctx = ctx
        self.workers = workers

    async def alone(self, draft: Draft, operation: UpdateOperation, text: str) -> Attempt:
        """Try one text alone: first whether it covers its cases, then the answers to them.

        As many cases as there are workers are asked at once, and no more after one that fails. How the skill does
        beside others is left to the final test, because it depends on what is learned later too.
        """
        skills, skill = draft.with_text(operation, text, operation.cases)
        tried = partial(Attempt, text, skills, skill)
        if problem := next(filter(None, (uncovered(text, case) for case in operation.cases)), ""):
            return tried(False, problem=problem)
        cases = [case for case in operation.cases if self.prover.can_judge(case)]
        outcomes: dict[str, CaseOutcome] = {}
        # In parts, although all could be asked at once: after a failure, the other answers would be paid for in vain.
        for part in in_parts(cases, self.workers):
            for outcome in await self.each(part, by_itself(skill)):
                outcomes[outcome.case.id] = outcome
                draft.asked[outcome.case.id] = self.prover.setting(outcome.case, [skill])
            failed = next((outcome for outcome in outcomes.values() if outcome.passed is False), None)
            if failed is not None:
                return tried(False, failed.answer, outcomes, problem_with_answer(failed.case, failed.answer))
        answer = next((outcome.answer for outcome in reversed(outcomes.values())), "")
        is_judged = len(outcomes) == len(operation.cases) and all(outcome.passed for outcome in outcomes.values())
        return tried(True if is_judged else None, answer, outcomes)

    async def each(self, cases: Sequence[SkillCase], skills: Sequence[Skill]) -> list[CaseOutcome]:
        """Ask the questions of different cases at once, with the same skills; the outcomes are in their order."""
        return await self.calling.each([partial(self.one, case, skills) for case in cases], self.workers)

    async def one(self, case: SkillCase, skills: Sequence[Skill], *, attempt: int = 1) -> CaseOutcome:
        """Ask the question of a case."""
        stop_if_cancelled()  # before each question: a proof may take minutes, and answers so far are recorded
        return await self.prover.outcome_with(self.calling, case, skills, attempt=attempt)

    async def better_text(self, operation: UpdateOperation, attempt: Attempt, problem: str, retry: int) -> str:
        """Ask the reflector for another text, and tell it the problem of this one."""
        reflector = self.settings.reflector
        if reflector is None:
            return ""
        from ace.outputs import AgentOutput

        case = operation.cases[0]
        scope = current_call_scope()
        # A scope of its own, so that a resumed run replays the answer to exactly this retry.
        sample = f"{scope.sample}/case {case.id}/retry {retry + 1}"
        feedback = f"{case.correction}\n\nThe rule {attempt.text!r} was tried. {problem} Write a better rule.".strip()
        answer = attempt.answer or case.wrong
        with call_scope(dataclasses.replace(scope, sample=sample).asked_by("Reflector")):
            reflection = await call_reflector(
                self.calling,
                reflector,
                question=case.question,
                agent_output=AgentOutput(reasoning="", final_answer=answer),
                skillbook=needed(self.ctx.skillbook, "skillbook", self),
                ground_truth=case.expected or None,
                feedback=feedback,
                trace={
                    "question": case.question,
                    "context": case.context,
                    "answer": answer,
                    "ground_truth": case.expected or None,
                    "feedback": feedback,
                },
            )
        return next((item.learning for item in reflection.extracted_learnings if item.learning.strip()), "")

    def is_guarded(self, operation: UpdateOperation, text: str | None = None) -> bool:
        """Return whether `ApplyStep` will reject an operation, with a text or with its own one."""
        guard = self.settings.guard
        if guard is None:
            return False
        known = known_of_task(self.ctx)
        changed = operation if text is None else dataclasses.replace(operation, content=text)
        return guard.problem_with(changed, known.answers, feedback=known.feedback) is not None


def by_itself(skill: Skill) -> list[Skill]:
    """Return a skill as the only one of a book, without its cases. A new one has the same id whenever it is tried."""
    id = "new-00001" if skill.id.startswith("new-") else skill.id
    return [skill.replace(id=id, cases=())]


def in_parts(cases: Sequence[SkillCase], size: int) -> list[Sequence[SkillCase]]:
    """Return the cases in parts of at most this size."""
    return [cases[place : place + size] for place in range(0, len(cases), size)]
