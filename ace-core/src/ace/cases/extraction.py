"""`cases_of`: the cases that a standard trace yields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ace.cases.checks import check_passes
from ace.cases.values import right_values
from ace.skill import CaseCheck, SkillCase
from ace.traces import TraceCorrection

__all__ = ["cases_of"]


def cases_of(trace: Mapping[str, Any], *, trace_id: str = "", made_at: str = "") -> tuple[SkillCase, ...]:
    """Return the cases of a standard trace, in order. No model is asked.

    Args:
        trace: What `read_trace` returns.
        trace_id: The name of the trace, kept with each case.
        made_at: The time, kept with each case: ISO 8601, UTC.

    Example:
        >>> [case.check for case in cases_of({"question": "6*7?", "answer": "41", "ground_truth": "42"})]
        [CaseCheck(kind='numeric', value='42')]
    """
    corrections: Sequence[TraceCorrection] = trace.get("corrections") or ()
    found = [_corrected(each) for each in corrections]
    truth, question = trace.get("ground_truth"), trace.get("question")
    if not found and truth and question:
        check = check_for(truth)
        answer, feedback = trace.get("answer") or "", trace.get("feedback") or ""
        wrong = "" if check_passes(check, answer) else answer
        found.append(
            SkillCase.make(
                question, check, context=trace.get("context") or "", wrong=wrong, correction=feedback, expected=truth
            )
        )
    return tuple(_placed(case, trace_id, made_at) for case in found if case is not None)


def check_for(expected: str) -> CaseCheck:
    """Return the strict check for a ground truth: by value for a number, else the whole text between boundaries.

    Args:
        expected: The ground truth.
    """
    text = expected.strip()
    try:
        float(text.replace(",", ""))
    except ValueError:
        return CaseCheck("contains", " ".join(text.split()))
    return CaseCheck("numeric", text)


def _corrected(correction: TraceCorrection) -> SkillCase | None:
    question, wrong, said, right = (correction[name] for name in ("question", "wrong", "correction", "right"))
    values = right_values(question, wrong, said, right)
    if not values:
        return None
    check = CaseCheck("contains", "\n".join(values))
    return SkillCase.make(question, check, wrong=wrong, correction=said, expected=right)


def _placed(case: SkillCase, trace_id: str, made_at: str) -> SkillCase:
    return SkillCase(**{**case.__dict__, "trace_id": trace_id, "made_at": made_at})
