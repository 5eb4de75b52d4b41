"""`ace review`: what learning keeps from agents until there is evidence or a decision."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, is_terminal, print_json, print_table, print_text, result_stream
from ace.cli.errors import DONE, UsageError
from ace.cli.options import Flag, JsonFlag
from ace.cli.reviewing.decisions import Decider
from ace.cli.skillbooks.history import place_of, undo_decisions_command
from ace.cli.skillbooks.landing import Landing, landing_of
from ace.cli.skillbooks.opening import check_writable, location_of, opened
from ace.cli.skillbooks.selection import find_skill
from ace.cli.skillbooks.skill_output import print_changes, skill_as_json
from ace.skill import Skill
from ace.skillbook.locations import shown_location

__all__ = ["command"]

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
    """Go through the pending skills, and accept or reject them.

    A skill is pending if no one judged the run that it was learned from, or if it failed the test on the case that
    taught it. Agents are not shown it until a later run with evidence teaches the same, or until you accept it. A
    rejected skill stays in the skillbook with your reason, and learning does not add it again.

    In a terminal, one skill at a time is shown with what it was learned from, and a key decides: a accepts, r rejects
    with a reason, e edits the text and asks its question again, s shows the run, d shows what acceptance would change,
    l leaves the skill pending, q quits. Elsewhere, the pending skills are listed. An accepted skill is also written to
    the file of the setting `block`, such as AGENTS.md. `ace undo` undoes a decision.

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
    landing = landing_of(location)
    if accepted or refused:
        return _decide(location, landing, accepted, refused, because or "", as_json=as_json)
    if not (rejected or as_json) and _is_at_terminal():
        return _in_terminal(location, landing)
    with opened(location) as book:
        skills = book.rejected_skills() if rejected else book.pending_skills()
    if as_json:
        about = {"command": "review", "skillbook": shown_location(location)}
        lands = {"block": None if landing is None else str(landing.file)}
        print_json({**about, **lands, "rejected" if rejected else "pending": [_as_json(skill) for skill in skills]})
        return DONE
    kind = "rejected" if rejected else "pending"
    if not skills:
        print_text(_nothing(location, kind))
        return DONE
    title = f"{counted(len(skills), f'{kind} skill')} in {shown_location(location)}"
    print_table(["id", "skill", "reason", "evidence", "learned from"], [_row(skill) for skill in skills], title=title)
    return DONE


def _is_at_terminal() -> bool:
    return sys.stdin.isatty() and is_terminal(result_stream())


def _in_terminal(location: str, landing: Landing | None) -> int:
    from ace.cli.reviewing.screen import review_in_terminal

    with opened(location) as book:
        if not book.pending_skills():
            print_text(_nothing(location, "pending"))
            return DONE
        check_writable(location)
        review_in_terminal(Decider(book, location, landing))
    return DONE


def _nothing(location: str, kind: str) -> str:
    return f"No skill in {shown_location(location)} is {kind}."


def _decide(
    location: str,
    landing: Landing | None,
    accepted: Sequence[str],
    refused: Sequence[str],
    because: str,
    *,
    as_json: bool,
) -> int:
    check_writable(location)
    with opened(location) as book:
        takes = list(dict.fromkeys(find_skill(book, location, id) for id in accepted))
        drops = list(dict.fromkeys(find_skill(book, location, id) for id in refused))
        changes, version = Decider(book, location, landing).decide(takes, drops, because)
    undo = "" if version is None else undo_decisions_command(location, [skill.id for _, skill in changes])
    print_changes("review", changes, location, version, undo, as_json=as_json)
    return DONE


def _row(skill: Skill) -> list[str]:
    places = [place_of(source.trace_id) or source.sample_question for source in skill.sources]
    first = places[0] if places else "-"
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return [skill.id, skill.content, skill.reason, ", ".join(skill.evidences) or "none", f"{first or '-'}{more}"]


def _as_json(skill: Skill) -> dict[str, object]:
    return {**skill_as_json(skill), "evidences": list(skill.evidences)}
