"""`KnownStep`, which checks whether the skillbook already answers the question of a trace."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, finished
from ace.cases import answer_passes
from ace.context import ACEStepContext
from ace.proofs import PROVE_ROLE, CaseProver
from ace.skill import Skill, SkillCase, join_cases
from ace.steps.context_access import is_learned, model_calls_for, needed, stop_if_cancelled
from ace.steps.judging import with_judged_cases
from ace.steps.trace_facts import holds_values, read_trace_of, sample_cases, values_to_hold, with_trace_read

if TYPE_CHECKING:
    from ace.steps.reflect import ReflectStep

__all__ = ["KnownStep", "case_holders", "lookup_workers"]

logger = logging.getLogger(__name__)


@checked_class
class KnownStep:
    """Asks the question of each correction with the skills that fit it, to avoid unnecessary reflections.

    If the answer passes, and a skill that was shown contains the deciding value, the trace teaches nothing new: the
    case is added to that skill, and `ReflectStep` and `UpdateStep` make no call. Without such a skill, nothing is
    asked. In a live run, the agent's answer is used. From this step on, a sample is in the background.

    The tail has this step twice: before `ReflectStep`, for the corrections that are known without it, and after it, for
    those that the reflection names. A case is looked up once.

    Args:
        prover: Asks the questions.
        shares_limit_with: The step that reflects. Together they work on as many samples at once as it does alone.
        allow: The classes of sensitive text that are neither redacted in cases nor in what the agent is asked.
        is_boundary: Whether the background begins here; it does not where the step follows `ReflectStep`.
    """

    requires = frozenset({"trace", "skillbook"})
    provides: frozenset[str] = frozenset()
    async_boundary = True
    max_workers = 3

    def __init__(
        self,
        prover: CaseProver,
        *,
        shares_limit_with: ReflectStep | None = None,
        allow: Collection[str] = (),
        is_boundary: bool = True,
    ) -> None:
        self.prover = prover
        self.agent = prover.agent
        self.async_boundary = is_boundary
        self.allow = frozenset(allow)
        self.shares_limit_with = shares_limit_with
        if shares_limit_with is not None and shares_limit_with.max_workers != self.max_workers:
            self.max_workers = shares_limit_with.max_workers

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its agent is plain, asynchronous or both."""
        return awaited_where(self.agent, "generate")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the cases of the trace to the context, and the skills that know them."""
        return finished(self._looked_up(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the cases of the trace to the context, and the skills that know them, without blocking a thread."""
        return await self._looked_up(ON_LOOP, ctx)

    async def _looked_up(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        needed(ctx.trace, "trace", self)
        done = case_holders(ctx)
        if "cases" in ctx.metadata and all(case.id in done for case in sample_cases(ctx)):
            return ctx
        book = needed(ctx.skillbook, "skillbook", self)
        with model_calls_for(ctx, PROVE_ROLE, allow=self.allow):
            if "cases" not in ctx.metadata:
                read = await calling.function(partial(read_trace_of, ctx))
                # The agent that answered in this run is also asked to prove what the run teaches.
                again = ctx.agent_output is not None
                reflector = getattr(self.shares_limit_with, "reflector", None)
                ctx, read = await with_judged_cases(
                    calling, ctx, read, reflector, agent=self.agent, allow=self.allow, can_be_asked_again=again
                )
                ctx = with_trace_read(ctx, read)
            known: dict[str, str] = {}
            holders: dict[str, tuple[str, ...]] = {}
            answers: dict[str, tuple[str, str]] = {}
            seen: dict[str, str] = {}
            live_answer = "" if ctx.agent_output is None else ctx.agent_output.final_answer
            for case in sample_cases(ctx):
                if case.id in done:
                    continue
                if ctx.agent_output is not None and ctx.sample is not None:
                    self.prover.remember(case, ctx.sample)
                skills = book.skills()
                holding = [skill for skill in skills if holds_values(skill, values_to_hold(case))]
                holders[case.id] = tuple(skill.id for skill in holding)
                if not holding or not self.prover.can_judge(case):
                    continue
                found = await self._answered(calling, ctx, case, skills, holders[case.id], live_answer)
                if found is None:
                    continue
                answer, skill_id = found
                if skill_id:
                    known[case.id] = skill_id
                    answers[case.id] = answer, next(skill.content for skill in skills if skill.id == skill_id)
                    if ctx.agent_output is None:
                        # Other skills may be shown by the time the sample is in the lane.
                        joined = [_with_case(skill, case) if skill.id == skill_id else skill for skill in skills]
                        seen[case.id] = await calling.function(partial(self.prover.setting, case, joined))
        result: dict[str, Mapping[str, object]] = {
            "known_cases": known,
            "case_holders": holders,
            "known_answers": answers,
            "known_seen": seen,
        }
        merged = {name: {**ctx.metadata.get(name, {}), **found} for name, found in result.items()}
        return ctx.replace(metadata={**ctx.metadata, **merged, "lookup_workers": self.max_workers})

    async def _answered(
        self,
        calling: Calling,
        ctx: ACEStepContext,
        case: SkillCase,
        skills: Sequence[Skill],
        holders: Sequence[str],
        live_answer: str,
    ) -> tuple[str, str] | None:
        """Return the answer to a case with the skills of the book, and the id of the shown skill that knows it, or "".

        None if none of `holders` would be shown; then nothing is asked.
        """
        if ctx.agent_output is not None:
            shown = ctx.metadata.get("shown_skill_ids")
            seen = [holder for holder in holders if shown is None or holder in shown]
            passed = answer_passes(case, live_answer) if case.check.kind != "environment" else not case.wrong
            return (live_answer, seen[0] if passed and seen else "") if seen else None
        shown_now = await calling.function(partial(self.prover.shown, case.question, skills))
        seen = [skill.id for skill in shown_now if skill.id in holders]
        if not seen:
            return None
        outcome = await self.prover.outcome_with(calling, case, skills)
        return outcome.answer, seen[0] if outcome.passed else ""


def _with_case(skill: Skill, case: SkillCase) -> Skill:
    return skill.replace(cases=join_cases(skill.cases, (case,)))


def case_holders(ctx: ACEStepContext) -> Mapping[str, Collection[str]]:
    """Return, by case id, the skills that contained its deciding values when `KnownStep` ran."""
    found: Mapping[str, Collection[str]] = ctx.metadata.get("case_holders", {})
    return found


def lookup_workers(ctx: ACEStepContext) -> int:
    """Return how many samples `KnownStep` looks up at once in the run of a sample, or would by default."""
    workers = ctx.metadata.get("lookup_workers")
    return workers if isinstance(workers, int) else KnownStep.max_workers
