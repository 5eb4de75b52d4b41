"""The cases of a sample, and which of them the skillbook answers already."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ace.cases import cases_of, deciding_values
from ace.cases.values import content_words, keeps, tokens
from ace.environments import says_only_the_truth
from ace.protocols.errors import encodable
from ace.skill import Skill, SkillCase

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.implementations.trace_reading import StandardTrace
    from ace.redaction import Redactor

__all__ = [
    "holds_values",
    "is_known",
    "known_cases",
    "open_cases",
    "redacted_case",
    "sample_cases",
    "values_to_hold",
    "was_corrected",
    "with_cases",
]

logger = logging.getLogger(__name__)

_LEAST_WORDS = 3
"""Words of a correction, beyond function words, with which it says more than that something was wrong."""


def with_cases(
    ctx: ACEStepContext, read: StandardTrace, redactor: Redactor, *, can_be_asked_again: bool = False
) -> ACEStepContext:
    """Return the context with the cases of its trace in `metadata["cases"]`, unless they are there already.

    They have no time yet: the skillbook notes it when they are written. What is kept of a case holds no personal data
    and no keys; a case whose answer is such a text is dropped.

    Args:
        ctx: The context.
        read: Its trace.
        redactor: Finds personal data and keys.
        can_be_asked_again: Whether the agent that made the trace proves what it teaches; see `ace.cases.cases_of`.
    """
    if "cases" in ctx.metadata:
        return ctx
    trace_id = str(ctx.metadata.get("trace_id", ""))
    cases_found = _cases(ctx, read, can_be_asked_again)
    found = (redacted_case(_replaced(case, trace_id=trace_id), redactor) for case in cases_found)
    placed = [case for case in found if case is not None]
    cases = tuple({case.id: case for case in placed}.values())
    return ctx.replace(metadata={**ctx.metadata, "cases": cases})


def redacted_case(case: SkillCase, redactor: Redactor) -> SkillCase | None:
    """Return a case in which all that is sensitive is replaced.

    A check that asks for something sensitive could not be passed any more. Such a case is dropped, and that is logged.

    Args:
        case: The case.
        redactor: Finds personal data and keys.

    Returns:
        The case; with another question or context it has another id. None if it is dropped.
    """

    def hidden(text: str) -> str:
        return encodable(redactor.redact(text))

    trace_id = encodable(redactor.redact_name(case.trace_id))
    if hidden(case.check.value) != case.check.value:
        logger.warning(
            "A case of %s is dropped: its check asks for a value that is redacted, so it can prove nothing",
            trace_id or "a trace",
        )
        return None
    question, context = hidden(case.question), hidden(case.context)
    is_same = (question, context) == (case.question, case.context)
    return _replaced(
        case,
        id=case.id if is_same else SkillCase.make(question, case.check, context=context).id,
        question=question,
        context=context,
        wrong=hidden(case.wrong),
        correction=hidden(case.correction),
        expected=hidden(case.expected),
        trace_id=trace_id,
    )


def sample_cases(ctx: ACEStepContext) -> tuple[SkillCase, ...]:
    """Return the cases of a sample."""
    cases: tuple[SkillCase, ...] = ctx.metadata.get("cases", ())
    return cases


def known_cases(ctx: ACEStepContext) -> Mapping[str, str]:
    """Return, by the ids of cases that the skillbook answers already, the skills that know the answers."""
    known: Mapping[str, str] = ctx.metadata.get("known_cases", {})
    return known


def open_cases(ctx: ACEStepContext) -> tuple[SkillCase, ...]:
    """Return the cases of a sample that the skillbook does not answer yet."""
    known = known_cases(ctx)
    return tuple(case for case in sample_cases(ctx) if case.id not in known)


def is_known(ctx: ACEStepContext) -> bool:
    """Tell whether the sample has cases, and the skillbook answers all of them: then it teaches nothing new."""
    return bool(sample_cases(ctx)) and not open_cases(ctx)


def was_corrected(case: SkillCase) -> bool:
    """Tell whether a person said what was wrong; what an environment says is not meant for rules."""
    if case.check.kind == "environment" or not case.correction.strip():
        return False
    return bool(deciding_values(case)) or len(content_words(case.correction)) >= _LEAST_WORDS


def values_to_hold(case: SkillCase) -> tuple[str, ...]:
    """Return what a skill must hold that knows the answer to a case.

    Those are the deciding values of the correction. Without a correction, it is the answer itself.

    Args:
        case: The case.
    """
    values = deciding_values(case) if was_corrected(case) else ()
    if values:
        return values
    if case.check.kind in ("exact", "contains", "numeric", "any_of"):
        return tuple(line for line in case.check.value.splitlines() if line.strip())
    return tuple(tokens(case.expected))


def holds_values(skill: Skill, values: Sequence[str]) -> bool:
    """Tell whether a skill holds all of these values, of which there must be one."""
    return bool(values) and all(keeps(skill.content, value) for value in values)


def _cases(ctx: ACEStepContext, read: StandardTrace, can_be_asked_again: bool) -> list[SkillCase]:
    spoken = {each["correction"] for each in read["corrections"] if each["place"] != "feedback"}
    judged = isinstance(ctx.trace, Mapping) and (ctx.trace.get("metrics") or ctx.trace.get("check"))
    return [
        # What an environment says about one answer is not a correction that a rule could repeat.
        _replaced(case, correction="")
        if case.check.kind != "environment"
        and case.correction not in spoken
        and (judged or says_only_the_truth(case.correction, case.expected))
        else case
        for case in cases_of(read, can_be_asked_again=can_be_asked_again)
    ]


def _replaced(case: SkillCase, **changes: Any) -> SkillCase:
    return SkillCase(**{**case.__dict__, **changes})
