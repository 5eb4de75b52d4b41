"""`ace skillbook show`: the skills, and the traces that they were learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ace.cli.console import counted, is_terminal, print_json, print_text, result_stream, visible
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.opened_book import location_of, opened
from ace.cli.skillbooks.selection import chosen_skills, find_skill, part_of
from ace.cli.skillbooks.skill_output import print_skill, print_skills, skill_as_json
from ace.skill import Skill
from ace.skillbook import Skillbook
from ace.skillbook.locations import shown_location

if TYPE_CHECKING:
    from ace.runners import SkillUse

__all__ = ["command"]

TextFormat = Literal["markdown", "xml", "toon", "json", "playbook"]


def command(
    *ids: str,
    section: Annotated[list[str] | None, Parameter(negative="")] = None,
    query: str | None = None,
    budget: int | None = None,
    text_format: Annotated[TextFormat | None, Parameter(name="--format")] = None,
    with_invalid: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    skillbook: SkillbookOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show the skills of a skillbook.

    With ids, all details of these skills are shown, including their counters and the traces that they were learned
    from.

    For example:

        ace skillbook show
        ace skillbook show maths-00001
        ace skillbook show --query "How do I add lengths?" --budget 200

    Args:
        ids: The ids of the skills. [default: all skills]
        section: Show only the skills of this section; repeatable.
        query: Show only the skills that fit this question and the pinned ones, the most relevant first.
        budget: Show only as many skills as fit into this many tokens.
        text_format: Print the skills as an agent sees them, or as playbook text.
        with_invalid: Also show skills that were removed or merged into others.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object with all fields.
    """
    if text_format is not None and (as_json or with_invalid):
        raise UsageError("--format shows what an agent sees; it cannot be combined with --json or --all")
    if budget is not None and budget < 0:
        raise UsageError(f"--budget must be a number of tokens of at least 0, got {budget}")
    location = location_of(skillbook)
    with opened(location) as book:
        wanted = _wanted(book, location, ids, section, with_invalid)
        if text_format is not None:
            _print_text(part_of(book, {skill.id for skill in wanted}), text_format, query, budget)
            return DONE
        skills = chosen_skills(wanted, query, budget)
        if as_json:
            _print_json(book, location, skills)
        elif ids:
            uses = _uses(book)
            for skill in skills:
                print_skill(skill, uses.get(skill.id))
        else:
            print_skills(skills, title=_title(location, book, skills))
    return DONE


def _wanted(
    book: Skillbook, location: str, ids: Sequence[str], sections: Sequence[str] | None, with_invalid: bool
) -> list[Skill]:
    if ids:
        skills = list(dict.fromkeys(find_skill(book, location, skill_id) for skill_id in ids))
    else:
        skills = book.skills(include_invalid=with_invalid)
    if not sections:
        return skills
    known = {skill.section for skill in book.skills(include_invalid=True)}
    for name in sections:
        if name not in known:
            raise UsageError(
                f"the skillbook {shown_location(location)!r} has no section {name!r}; its sections are {_listed(known)}"
            )
    return [skill for skill in skills if skill.section in sections]


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names))) or "none"


def _print_text(book: Skillbook, text_format: TextFormat, query: str | None, budget: int | None) -> None:
    if text_format == "playbook":
        chosen = chosen_skills(book.skills(), query, budget)
        text = part_of(book, {skill.id for skill in chosen}).as_playbook().rstrip("\n")
    else:
        text = book.as_prompt(budget, query, text_format)
    print_text(visible(text) if is_terminal(result_stream()) else text)


def _print_json(book: Skillbook, location: str, skills: Sequence[Skill]) -> None:
    uses = _uses(book)
    print_json(
        {
            "command": "skillbook show",
            "skillbook": shown_location(location),
            "version": book.version,
            "skills": [{**skill_as_json(skill), "use": _use_as_json(uses.get(skill.id))} for skill in skills],
        }
    )


def _uses(book: Skillbook) -> Mapping[str, SkillUse]:
    from ace.runners import skill_use

    return skill_use(book)


def _use_as_json(use: SkillUse | None) -> dict[str, int] | None:
    return None if use is None else use._asdict()


def _title(location: str, book: Skillbook, skills: Sequence[Skill]) -> str:
    version = "" if book.version is None else f" at version {book.version}"
    everything = counted(len(book.skills(include_invalid=True)), "skill")
    return f"{shown_location(location)}{version}: {len(skills)} of {everything}"
