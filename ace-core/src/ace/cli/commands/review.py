"""`ace review`: what learning keeps from agents until there is evidence or a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, print_json, print_table, print_text
from ace.cli.errors import DONE, UsageError
from ace.cli.options import Flag, JsonFlag
from ace.cli.skillbooks.history import place_of, undo_command
from ace.cli.skillbooks.opening import check_writable, location_of, opened, save
from ace.cli.skillbooks.selection import find_skill
from ace.cli.skillbooks.skill_output import print_changes, skill_as_json
from ace.skill import INVALID, Skill
from ace.skillbook.locations import shown_location

__all__ = ["command"]

_AUTHOR = "ace review"
_Ids = Annotated[list[str] | None, Parameter(negative="")]


def command(
    skillbook: str | None = None,
    /,
    *,
    accept: _Ids = None,
    reject: _Ids = None,
    because: str | None = None,
    rejected: Annotated[bool, Flag] = False,
    as_json: JsonFlag = False,
) -> int:
    """List the skills that are pending, and accept or reject them.

    A skill is pending if no one judged the run that it was learned from, or if it failed the test on the case that
    taught it. Agents are not shown it until a later run with evidence teaches the same, or until you accept it. A
    rejected skill stays in the skillbook with your reason, and learning does not add it again.

    For example:

        ace review
        ace review skills.db --accept maths-00001
        ace review --reject maths-00002 --because "This was true for one customer only."

    Args:
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        accept: The id of a skill that agents should be shown; repeatable.
        reject: The id of a skill that is wrong or not wanted; repeatable. Requires --because.
        because: The reason for the rejection. Later reflections are shown it.
        rejected: List the rejected skills instead.
        as_json: Print one JSON object.
    """
    accepted, refused = accept or [], reject or []
    if refused and not (because or "").strip():
        raise UsageError("--reject requires --because with the reason, which later reflections are shown")
    if because is not None and not refused:
        raise UsageError("--because is the reason for --reject, which is missing")
    location = location_of(skillbook)
    if accepted or refused:
        return _decide(location, accepted, refused, because or "", as_json=as_json)
    with opened(location) as book:
        skills = book.rejected_skills() if rejected else book.pending_skills()
    if as_json:
        about = {"command": "review", "skillbook": shown_location(location)}
        print_json({**about, "rejected" if rejected else "pending": [_as_json(skill) for skill in skills]})
        return DONE
    kind = "rejected" if rejected else "pending"
    if not skills:
        print_text(f"No skill in {shown_location(location)} is {kind}.")
        return DONE
    title = f"{counted(len(skills), f'{kind} skill')} in {shown_location(location)}"
    print_table(["id", "skill", "reason", "evidence", "learned from"], [_row(skill) for skill in skills], title=title)
    return DONE


def _decide(location: str, accepted: Sequence[str], refused: Sequence[str], because: str, *, as_json: bool) -> int:
    check_writable(location)
    with opened(location) as book:
        takes = list(dict.fromkeys(find_skill(book, location, id) for id in accepted))
        drops = list(dict.fromkeys(find_skill(book, location, id) for id in refused))
        if problem := _problem(takes, drops):
            raise UsageError(f"{problem}, so nothing was changed")
        with book.deferred_commits():
            changes = [("accepted", book.accept_skill(skill.id)) for skill in takes]
            changes += [("rejected", book.reject_skill(skill.id, because)) for skill in drops]
            version = save(book, location, author=_AUTHOR)
    print_changes("review", changes, location, version, undo_command(location, version), as_json=as_json)
    return DONE


def _problem(takes: Sequence[Skill], drops: Sequence[Skill]) -> str:
    """Return why not all of the decisions are possible; empty if they are."""
    for skill in takes:
        if skill in drops:
            return f"the skill {skill.id!r} cannot be both accepted and rejected"
        if not (skill.is_pending or skill.is_rejected):
            return f"the skill {skill.id!r} is neither pending nor rejected"
    for skill in drops:
        if skill.status == INVALID:
            return f"the skill {skill.id!r} is neither active nor pending"
        if skill.pinned:
            return f"the skill {skill.id!r} is pinned"
    return ""


def _row(skill: Skill) -> list[str]:
    places = [place_of(source.trace_id) or source.sample_question for source in skill.sources]
    first = places[0] if places else "-"
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return [skill.id, skill.content, skill.reason, ", ".join(skill.evidences) or "none", f"{first or '-'}{more}"]


def _as_json(skill: Skill) -> dict[str, object]:
    return {**skill_as_json(skill), "evidences": list(skill.evidences)}
