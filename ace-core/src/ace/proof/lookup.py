"""Which questions of a trace the skillbook already answers, so that nothing needs to be learned from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ace.cases import answer_passes
from ace.proof.trace_facts import holds_values, sample_cases, values_to_hold
from ace.skill import Skill, SkillCase, join_cases

if TYPE_CHECKING:
    from ace.calls.calling import Calling
    from ace.context import ACEStepContext
    from ace.proof.prover import CaseProver

__all__ = ["LOOKUP_WORKERS", "are_looked_up", "case_holders", "lookup_workers", "with_known_cases"]

LOOKUP_WORKERS: Final = 3
"""How many samples are looked up at once by default."""


async def with_known_cases(calling: Calling, ctx: ACEStepContext, prover: CaseProver) -> ACEStepContext:
    """Return the context with the cases that the skillbook answers, and the skills that know them, in its metadata.

    Args:
        calling: How the agent is called.
        ctx: The context of the sample, with its cases.
        prover: Asks the questions.
    """
    done = case_holders(ctx)
    skills = [] if ctx.skillbook is None else ctx.skillbook.skills()
    known: dict[str, str] = {}
    holders: dict[str, tuple[str, ...]] = {}
    answers: dict[str, tuple[str, str]] = {}
    seen: dict[str, str] = {}
    for case in sample_cases(ctx):
        if case.id in done:
            continue
        if ctx.agent_output is not None and ctx.sample is not None:
            prover.remember(case, ctx.sample)
        # Noted even if nothing is asked: a holder that is new when the sample has the lane was learned meanwhile.
        holders[case.id] = tuple(skill.id for skill in skills if holds_values(skill, values_to_hold(case)))
        if not holders[case.id] or not prover.can_judge(case):
            continue
        answer, skill_id = await _answered(calling, ctx, prover, case, skills, holders[case.id])
        if skill_id:
            known[case.id] = skill_id
            answers[case.id] = answer, next(skill.content for skill in skills if skill.id == skill_id)
            if ctx.agent_output is None:
                # Other skills may be shown by the time the sample is in the lane.
                joined = [_with_case(skill, case) if skill.id == skill_id else skill for skill in skills]
                seen[case.id] = await calling.function(partial(prover.setting, case, joined))
    result: dict[str, Mapping[str, object]] = {
        "known_cases": known,
        "case_holders": holders,
        "known_answers": answers,
        "known_seen": seen,
    }
    merged = {name: {**ctx.metadata.get(name, {}), **found} for name, found in result.items()}
    return ctx.replace(metadata={**ctx.metadata, **merged})


async def _answered(
    calling: Calling,
    ctx: ACEStepContext,
    prover: CaseProver,
    case: SkillCase,
    skills: Sequence[Skill],
    holders: Sequence[str],
) -> tuple[str, str]:
    """Return the answer to a case with the skills of the book, and the id of the shown skill that knows it, or "".

    If none of `holders` would be shown, nothing is asked.
    """
    if ctx.agent_output is not None:
        shown = ctx.metadata.get("shown_skill_ids")
        seen = [holder for holder in holders if shown is None or holder in shown]
        answer = ctx.agent_output.final_answer
        passed = answer_passes(case, answer) if case.check.kind != "environment" else not case.wrong
        return answer, seen[0] if passed and seen else ""
    shown_now = await calling.function(partial(prover.shown, case.question, skills))
    seen = [skill.id for skill in shown_now if skill.id in holders]
    if not seen:
        return "", ""
    outcome = await prover.outcome_with(calling, case, skills)
    return outcome.answer, seen[0] if outcome.passed else ""


def _with_case(skill: Skill, case: SkillCase) -> Skill:
    return skill.replace(cases=join_cases(skill.cases, (case,)))


def are_looked_up(ctx: ACEStepContext) -> bool:
    """Return whether the cases of a sample are known and each of them was looked up."""
    done = case_holders(ctx)
    return "cases" in ctx.metadata and all(case.id in done for case in sample_cases(ctx))


def case_holders(ctx: ACEStepContext) -> Mapping[str, Collection[str]]:
    """Return, by case id, the skills that contained its deciding values when it was looked up."""
    found: Mapping[str, Collection[str]] = ctx.metadata.get("case_holders", {})
    return found


def lookup_workers(ctx: ACEStepContext) -> int:
    """Return how many samples are looked up at once in the run of a sample, or would be by default."""
    workers = ctx.metadata.get("lookup_workers")
    return workers if isinstance(workers, int) else LOOKUP_WORKERS
