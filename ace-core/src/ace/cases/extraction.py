"""`cases_of`: extracts the cases from a standard trace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ace.cases.checks import check_for, check_of_correction, check_passes
from ace.cases.corrections import accepted_answer, answer_in
from ace.cases.values import content_words, holds
from ace.skill import CHECK_KINDS, CaseCheck, SkillCase
from ace.traces import TraceCorrection, TraceStep

__all__ = ["cases_of"]

_LEAST_WORDS_TO_JUDGE = 3
"""Words of a correction, beyond function words, without which a judge would not know what to look for."""


def cases_of(
    trace: Mapping[str, Any], *, trace_id: str = "", made_at: str = "", can_be_asked_again: bool = False
) -> tuple[SkillCase, ...]:
    """Return the cases of a standard trace, in order, without using a model.

    Each correction yields one case; a trace without corrections yields one if it was scored, by an environment or
    against a ground truth. A question that was answered with tools cannot be asked again without them, so a scored
    trace with tool calls yields no case, and neither does a correction whose right answer came from a tool. If code
    cannot distinguish the right answer from the wrong one, the check is left to a judge.

    Args:
        trace: The result of `read_trace`.
        trace_id: The name of the trace, which is stored with each case.
        made_at: The time, which is stored with each case: ISO 8601, UTC.
        can_be_asked_again: Whether the cases will be asked of the agent that produced the trace, with its tools. Then
            a scored trace yields a case in spite of its tool calls.

    Example:
        >>> [case.check for case in cases_of({"question": "6*7?", "answer": "41", "ground_truth": "42"})]
        [CaseCheck(kind='numeric', value='42')]
    """
    corrections: Sequence[TraceCorrection] = trace.get("corrections") or ()
    steps: Sequence[TraceStep] = trace.get("steps") or ()
    truth, check = trace.get("ground_truth") or "", _check_in(trace)
    is_judged = bool(trace.get("question")) and (check is not None or bool(truth and not _by_dialogue(corrections)))
    found: list[SkillCase | None]
    if is_judged and (can_be_asked_again or not any(step["kind"] == "call" for step in steps)):
        found = [_judged(trace, truth, check)]
    else:
        # The feedback of a judged trace may come from the judge, who saw what the tools did; what was said did not.
        said = [correction for correction in corrections if not is_judged or correction["place"] != "feedback"]
        found = [_corrected(correction, steps, trace.get("context") or "") for correction in said]
    unique = {case.id: case for case in found if case is not None}
    return tuple(_placed(case, trace_id, made_at) for case in unique.values())


def _by_dialogue(corrections: Sequence[TraceCorrection]) -> bool:
    return any(correction["place"] != "feedback" for correction in corrections)


def _check_in(trace: Mapping[str, Any]) -> CaseCheck | None:
    """Return the check with which an environment scored the answer, if the trace contains it."""
    check = trace.get("check")
    if (
        not isinstance(check, Mapping)
        or check.get("kind") not in CHECK_KINDS
        or not isinstance(check.get("value"), str)
        or (check["kind"] == "regex" and not _is_pattern(check["value"]))
    ):
        return None
    return CaseCheck(check["kind"], check["value"])


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _judged(trace: Mapping[str, Any], truth: str, check: CaseCheck | None) -> SkillCase:
    check = check or check_for(truth)
    answer = trace.get("answer") or ""
    passed = check_passes(check, answer, question=trace["question"])
    if passed is None:
        passed = _was_correct(trace)
    return SkillCase.make(
        trace["question"],
        check,
        context=trace.get("context") or "",
        wrong="" if passed else answer,
        correction=trace.get("feedback") or "",
        expected=truth,
    )


def _was_correct(trace: Mapping[str, Any]) -> bool:
    rest = trace.get("rest")
    for holder in (trace, rest if isinstance(rest, Mapping) else {}):
        metrics = holder.get("metrics")
        if isinstance(metrics, Mapping) and isinstance(metrics.get("correct"), int | float):
            return float(metrics["correct"]) >= 1.0
    return trace.get("success") is True


def _corrected(correction: TraceCorrection, steps: Sequence[TraceStep], context: str) -> SkillCase | None:
    question, wrong, said = (correction[name] for name in ("question", "wrong", "correction"))
    right = accepted_answer(correction["right"]) or answer_in(question, wrong, said)
    feedback = correction["place"] == "feedback"
    if right:
        check = check_of_correction(question, wrong, said, right)
        if check is not None:
            if _came_from_a_tool(check, correction, steps):
                return None
            return SkillCase.make(
                question, check, context=context if feedback else "", wrong=wrong, correction=said, expected=right
            )
    if len(content_words(said)) < _LEAST_WORDS_TO_JUDGE:
        return None
    rubric = CaseCheck("judge", f"Does the answer do what this correction asks for? The correction: {said}")
    return SkillCase.make(
        question, rubric, context=context if feedback else "", wrong=wrong, correction=said, expected=right
    )


def _came_from_a_tool(check: CaseCheck, correction: TraceCorrection, steps: Sequence[TraceStep]) -> bool:
    """Whether tools were called after the correction, and the value of the check is not in the correction."""
    if check.kind in ("contains", "numeric") and all(
        holds(correction["correction"], value) for value in check.value.splitlines()
    ):
        return False
    places = [at for at, step in enumerate(steps) if step["place"] == correction["place"] and step["name"] == "user"]
    for step in steps[places[0] + 1 :] if places else ():
        if step["kind"] == "message" and step["name"] == "user":
            return False
        if step["kind"] == "call":
            return True
    return False


def _placed(case: SkillCase, trace_id: str, made_at: str) -> SkillCase:
    return SkillCase(**{**case.__dict__, "trace_id": trace_id, "made_at": made_at})
