"""Prints skills and their cases, and parses a case from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ace._internal.json_fields import JsonValue
from ace.cli.console import counted, print_json, print_table, print_text, shown_time, visible
from ace.cli.errors import UsageError
from ace.cli.settings import clock_from_environment
from ace.cli.skillbooks.described_history import place_of, print_undo
from ace.skill import INVALID, Skill, SkillCase
from ace.skillbook.locations import shown_location

if TYPE_CHECKING:
    from ace.runners import SkillUse

__all__ = [
    "as_option",
    "cases_from",
    "print_cases",
    "print_changes",
    "print_skill",
    "print_skills",
    "proof_as_json",
    "skill_as_json",
]

_ARROW = "=>"


def skill_as_json(skill: Skill) -> dict[str, JsonValue]:
    """Return all fields of a skill except the vector, and the verdict of its cases."""
    more = {"merged_into": skill.merged_into, "proof": skill.proof, "pinned": skill.pinned}
    return {**skill.to_dict(), **more}


def print_changes(
    command: str,
    changes: Sequence[tuple[str, Skill]],
    location: str,
    version: int | None,
    undo: str,
    *,
    as_json: bool,
) -> None:
    """Print the changes of a command to skills, and the command that undoes them.

    Args:
        command: The name of the command, for JSON.
        changes: For each skill, the change as a verb, and the skill afterwards.
        location: Where the skillbook was opened.
        version: The version of the store; None for a JSON file.
        undo: What `undo_command` returned; empty if nothing was changed.
        as_json: Whether to print one JSON object.
    """
    if as_json:
        skills = [skill_as_json(skill) for _, skill in changes]
        about = {"command": command, "skillbook": shown_location(location), "version": version}
        print_json({**about, "skills": skills, "undo": undo})
        return
    for done, skill in changes:
        print_text(f"{done} [{skill.id}]: {visible(skill.content)}")
    if undo:
        print_undo(location, version, undo)


def print_skills(skills: Sequence[Skill], *, title: str = "") -> None:
    """Print a table of skills; columns say which are proven, if one has a case, pinned, and not active.

    Args:
        title: A line above it.
    """
    columns = ["id", "section", "helpful", "harmful", "neutral", "content"]
    rows = [_row(skill) for skill in skills]
    if any(skill.cases for skill in skills):
        columns.insert(2, "proof")
        for row, skill in zip(rows, skills, strict=True):
            row.insert(2, skill.proof)
    if not all(skill.is_active and not skill.pinned for skill in skills):
        columns.insert(1, "status")
        for row, skill in zip(rows, skills, strict=True):
            row.insert(1, _status(skill))
    print_table(columns, rows, title=title)


def _use_in_words(use: SkillUse) -> str:
    """Return the use of a skill, as text; empty if no agent saw it."""
    shown = [f"chosen for {counted(use.chosen, 'sample')}"] if use.chosen else []
    shown += [f"shown with the whole book to {counted(use.whole_book, 'sample')}"] if use.whole_book else []
    return ", ".join([*shown, f"cited {counted(use.cited, 'time')}"]) if shown else ""


def print_skill(skill: Skill, use: SkillUse | None = None) -> None:
    """Print one skill with all its details, its cases, and the traces that it was learned from.

    Args:
        use: The number of times that agents saw and cited it.
    """
    facts = [
        ("section", skill.section),
        ("content", skill.content),
        ("status", _status(skill)),
        ("reason", skill.reason),
        ("counters", f"helpful {skill.helpful}, harmful {skill.harmful}, neutral {skill.neutral}"),
        ("used", "" if use is None else _use_in_words(use)),
        ("justification", skill.justification or ""),
        ("evidence", skill.evidence or ""),
        ("kinds of evidence", ", ".join(skill.evidences)),
        ("added (UTC)", shown_time(skill.created_at)),
        ("changed (UTC)", shown_time(skill.updated_at)),
    ]
    print_table(["skill", skill.id], [[name, value] for name, value in facts if value])
    print_text("")
    if skill.cases:
        print_cases(skill)
        print_text("")
    if not skill.sources:
        print_table(["learned from"], [["no recorded source"]])
        return
    print_table(
        ["learned from", "epoch", "step", "by", "question", "error", "learning"],
        [
            [
                place_of(source.trace_id) or "-",
                str(source.epoch or "-"),
                str(source.step or "-"),
                source.integration or "-",
                source.sample_question or "-",
                source.error_identification or "-",
                source.learning_text or "-",
            ]
            for source in skill.sources
        ],
    )


def _row(skill: Skill) -> list[str]:
    return [skill.id, skill.section, str(skill.helpful), str(skill.harmful), str(skill.neutral), skill.content]


def _status(skill: Skill) -> str:
    if skill.merged_into is not None:
        return f"merged into {skill.merged_into}"
    if skill.status == INVALID:
        return "rejected" if skill.reason else "removed"
    return "pinned" if skill.pinned else skill.status


def cases_from(texts: Sequence[str] | None) -> list[SkillCase]:
    """Parse the values of `--case`, each of the form "question => answer".

    Args:
        texts: The values of the option; None where it was not given.

    Raises:
        UsageError: One has another form. The text describes the form.

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
    from ace.cases import check_for  # only what changes a case needs it

    return SkillCase.make(question, check_for(answer), expected=answer, made_at=at)


def as_option(case: SkillCase) -> str | None:
    """Return the value of `--case` that recreates a case; None if the option cannot express it."""
    text = f"{case.question} {_ARROW} {case.expected}"
    if not case.expected:
        return None
    try:
        again = _case_from(text, case.made_at)
    except UsageError:
        return None
    parts = (case.id, case.expected, case.wrong, case.correction)
    return text if parts == (again.id, again.expected, "", "") else None


def print_cases(skill: Skill) -> None:
    """Print the cases of a skill, if any: the question, the wrong and the correct answer, and the last result."""
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
    """Return the proof of a skill: each question, the old, the correct and the new answer, and the result."""
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
