"""Cases that a person gives on the command line, and how cases look there."""

from __future__ import annotations

from collections.abc import Sequence

from ace.cases import check_for
from ace.cli.clock import clock_from_environment
from ace.cli.console import print_table
from ace.cli.errors import UsageError
from ace.cli.wording import shown_time
from ace.skill import Skill, SkillCase

__all__ = ["as_option", "cases_from", "print_cases", "proof_as_json"]

_ARROW = "=>"


def cases_from(texts: Sequence[str] | None) -> list[SkillCase]:
    """Return the cases that `--case` names, each as "question => answer".

    Args:
        texts: The values of the option; None where it was not given.

    Raises:
        UsageError: One has another form. The text says how it is written.

    Example:
        >>> [(case.question, case.check.value) for case in cases_from(["When is high water? => 14h30"])]
        [('When is high water?', '14h30')]
    """
    at = clock_from_environment()().isoformat("T", "microseconds")
    return [_case_from(text, at) for text in texts or ()]


def _case_from(text: str, at: str) -> SkillCase:
    # The last arrow counts: a question may quote one, a short answer hardly does.
    question, arrow, answer = (part.strip() for part in text.rpartition(_ARROW))
    if not (question and arrow and answer):
        raise UsageError(
            f'--case {text!r} is not a question and its answer; write it as "question => answer", '
            'such as "When is high water? => 14h30"'
        )
    return SkillCase.make(question, check_for(answer), expected=answer, made_at=at)


def as_option(case: SkillCase) -> str | None:
    """Return the value of `--case` that makes a case again; None for one that says more than this option can.

    Args:
        case: The case.
    """
    text = f"{case.question} {_ARROW} {case.expected}"
    if not case.expected:
        return None
    try:
        again = _case_from(text, case.made_at)
    except UsageError:
        return None
    told = (case.id, case.expected, case.wrong, case.correction)
    return text if told == (again.id, again.expected, "", "") else None


def print_cases(skill: Skill) -> None:
    """Print the cases of a skill, if it has any: what was asked, what was wrong and what is right, and the last result.

    Args:
        skill: The skill.
    """
    if not skill.cases:
        return
    rows = [
        [
            case.id,
            case.question,
            case.wrong or "-",
            _expected(case),
            case.answer or "-",
            case.last_result.replace("_", " "),
            shown_time(case.last_run_at) or "-",
            case.model or "-",
        ]
        for case in skill.cases
    ]
    columns = ["case", "question", "wrong answer", "correct answer", "answer now", "result", "asked (UTC)", "model"]
    print_table(columns, rows, title=f"Proof: {skill.proof}")


def proof_as_json(skill: Skill) -> dict[str, object]:
    """Return what proves a skill: each question, the answer before, the correct one, the answer after and its result.

    Args:
        skill: The skill.
    """
    cases = [
        {
            "id": case.id,
            "question": case.question,
            "before": case.wrong,
            "correction": case.correction,
            "expected": _expected(case),
            "after": case.answer,
            "result": case.last_result,
            "at": case.last_run_at,
            "model": case.model,
            "trace": case.trace_id,
        }
        for case in skill.cases
    ]
    return {"state": skill.proof, "cases": cases}


def _expected(case: SkillCase) -> str:
    return case.expected or " ".join(case.check.value.splitlines())
