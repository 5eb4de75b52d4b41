"""How skills look: rows of a table, JSON values, and one skill with everything that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ace.cli.console import print_table, print_text
from ace.cli.learning.run_report import place_of
from ace.cli.skillbooks.cases import print_cases
from ace.cli.wording import shown_time
from ace.skill import INVALID, Skill
from ace.skillbook.json_write import JsonValue, skill_dict

if TYPE_CHECKING:
    from ace.runners import SkillUse

__all__ = ["print_skill", "print_skills", "skill_as_json"]


def skill_as_json(skill: Skill) -> dict[str, JsonValue]:
    """Return all fields of a skill but the vector, and what its cases say about it.

    Args:
        skill: The skill.
    """
    more = {"merged_into": skill.merged_into, "proof": skill.proof, "pinned": skill.pinned}
    return {**skill_dict(skill), **more}


def print_skills(skills: Sequence[Skill], *, title: str = "") -> None:
    """Print a table of skills; columns say which are proven, if one has a case, pinned, and not active.

    Args:
        skills: The skills.
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
    """Return how often a skill was used, in words.

    Args:
        use: Its use.
    """
    shown = [f"chosen for {use.chosen} samples"] if use.chosen else []
    shown += [f"shown with the whole book to {use.whole_book}"] if use.whole_book else []
    return ", ".join([*shown, f"cited {use.cited} times"]) if shown else ""


def print_skill(skill: Skill, use: SkillUse | None = None) -> None:
    """Print one skill with everything that is known of it, its cases, and the traces that taught it.

    Args:
        skill: The skill.
        use: How often agents saw and cited it.
    """
    facts = [
        ("section", skill.section),
        ("content", skill.content),
        ("status", _status(skill)),
        ("counters", f"helpful {skill.helpful}, harmful {skill.harmful}, neutral {skill.neutral}"),
        ("used", "" if use is None else _use_in_words(use)),
        ("justification", skill.justification or ""),
        ("evidence", skill.evidence or ""),
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
        return "removed"
    return "pinned" if skill.pinned else skill.status
