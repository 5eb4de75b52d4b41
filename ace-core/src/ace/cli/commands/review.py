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
from ace.cli.skillbooks.described_history import place_of, undo_decisions_command
from ace.cli.skillbooks.kept import owner_of, published, skillbooks_here
from ace.cli.skillbooks.landing import landing_of
from ace.cli.skillbooks.opened_book import check_writable, opened
from ace.cli.skillbooks.selection import find_skill
from ace.cli.skillbooks.skill_output import print_changes, skill_as_json
from ace.plugins import KeptSkillbook
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

    Without SKILLBOOK, the skillbooks that plugins keep for the current project are reviewed, too.

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
    books = skillbooks_here(skillbook)
    if accepted or refused:
        return _decide(owner_of(books, [*accepted, *refused]), accepted, refused, because or "", as_json=as_json)
    if not (rejected or as_json) and _is_at_terminal():
        return max(_in_terminal(book) for book in books)
    found = [(book, _listed(book.location, rejected=rejected)) for book in books]
    kind = "rejected" if rejected else "pending"
    if as_json:
        skills = [{**_as_json(skill), "skillbook": shown_location(book.location)} for book, of in found for skill in of]
        landing = landing_of(books[0].location)
        about = {"command": "review", "skillbook": shown_location(books[0].location)}
        print_json({**about, "block": None if landing is None else str(landing.file), kind: skills})
        return DONE
    for book, skills_of_book in found:
        _print(book, skills_of_book, kind)
    return DONE


def _listed(location: str, *, rejected: bool) -> list[Skill]:
    with opened(location) as book:
        return book.rejected_skills() if rejected else book.pending_skills()


def _print(book: KeptSkillbook, skills: Sequence[Skill], kind: str) -> None:
    if not skills:
        print_text(_nothing(book.location, kind))
        return
    about = f": {book.title}" if book.title else ""
    title = f"{counted(len(skills), f'{kind} skill')} in {shown_location(book.location)}{about}"
    print_table(["id", "skill", "reason", "evidence", "learned from"], [_row(skill) for skill in skills], title=title)
    for skill in skills:
        if skill.evidence:
            lines = "".join(f"\n  {line}" for line in skill.evidence.splitlines())
            print_text(f"\n[{skill.id}] evidence:{lines}")


def _is_at_terminal() -> bool:
    return sys.stdin.isatty() and is_terminal(result_stream())


def _in_terminal(kept: KeptSkillbook) -> int:
    from ace.cli.reviewing.screen import review_in_terminal

    location = kept.location
    with opened(location) as book:
        if not book.pending_skills():
            print_text(_nothing(location, "pending"))
            return DONE
        check_writable(location)
        if kept.title:
            print_text(f"{kept.title}\n")
        review_in_terminal(Decider(book, location, landing_of(location)), kept)
    return published(kept)


def _nothing(location: str, kind: str) -> str:
    return f"No skill in {shown_location(location)} is {kind}."


def _decide(
    kept: KeptSkillbook, accepted: Sequence[str], refused: Sequence[str], because: str, *, as_json: bool
) -> int:
    location = kept.location
    check_writable(location)
    with opened(location) as book:
        takes = list(dict.fromkeys(find_skill(book, location, id) for id in accepted))
        drops = list(dict.fromkeys(find_skill(book, location, id) for id in refused))
        changes, version = Decider(book, location, landing_of(location)).decide(takes, drops, because)
    undo = "" if version is None else undo_decisions_command(location, [skill.id for _, skill in changes])
    print_changes("review", changes, location, version, undo, as_json=as_json)
    return published(kept)


def _row(skill: Skill) -> list[str]:
    places = [place_of(source.trace_id) or source.sample_question for source in skill.sources]
    first = places[0] if places else "-"
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return [skill.id, skill.content, skill.reason, ", ".join(skill.evidences) or "none", f"{first or '-'}{more}"]


def _as_json(skill: Skill) -> dict[str, object]:
    return {**skill_as_json(skill), "evidences": list(skill.evidences)}
