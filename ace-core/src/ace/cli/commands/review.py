"""`ace review`: what learning keeps from agents until there is evidence or a decision."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, is_terminal, note, print_json, print_table, print_text, result_stream
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.options import Flag, JsonFlag
from ace.cli.reviewing.decisions import Decider
from ace.cli.skillbooks.history import place_of, undo_decisions_command
from ace.cli.skillbooks.landing import landing_of
from ace.cli.skillbooks.opening import check_writable, location_of, opened
from ace.cli.skillbooks.selection import bare_id, find_skill
from ace.cli.skillbooks.skill_output import print_changes, skill_as_json
from ace.plugins import KeptSkillbook, kept_skillbooks
from ace.skill import Skill
from ace.skillbook.locations import has_scheme, shown_location

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
    books = _reviewed(skillbook)
    if accepted or refused:
        return _decide(_owner(books, [*accepted, *refused]), accepted, refused, because or "", as_json=as_json)
    if not (rejected or as_json) and _is_at_terminal():
        return max(_in_terminal(kept) for kept in books)
    kind = "rejected" if rejected else "pending"
    found = [(kept, _listed(kept.location, rejected=rejected)) for kept in books]
    if as_json:
        skills = [{**_as_json(skill), "skillbook": shown_location(kept.location)} for kept, of in found for skill in of]
        landing = landing_of(books[0].location)
        about = {"command": "review", "skillbook": shown_location(books[0].location)}
        print_json({**about, "block": None if landing is None else str(landing.file), kind: skills})
        return DONE
    for kept, skills_of_book in found:
        _print(kept, skills_of_book, kind)
    return DONE


def _reviewed(skillbook: str | None) -> list[KeptSkillbook]:
    """Return the skillbook that was named; without one, that of the settings and those that plugins keep here."""
    location, kept = location_of(skillbook), kept_skillbooks(Path.cwd())
    named = [book for book in kept if book.location == location] or [KeptSkillbook(location, "", lambda: ())]
    if skillbook is not None:
        return named
    others = [book for book in kept if book.location != location]
    return [*named, *others] if has_scheme(location) or Path(location).exists() or not others else others


def _owner(books: Sequence[KeptSkillbook], ids: Sequence[str]) -> KeptSkillbook:
    """Return the skillbook that has the skills."""
    if len(books) == 1:
        return books[0]
    owners: dict[str, KeptSkillbook] = {}
    for kept in books:
        with opened(kept.location) as book:
            if any(bare_id(id) in book for id in ids):
                owners[kept.location] = kept
    if len(owners) > 1:
        where = " or ".join(map(shown_location, owners))
        raise UsageError(f"these skills are in several skillbooks, so nothing was changed; name one of them: {where}")
    return next(iter(owners.values()), books[0])


def _listed(location: str, *, rejected: bool) -> list[Skill]:
    with opened(location) as book:
        return book.rejected_skills() if rejected else book.pending_skills()


def _print(kept: KeptSkillbook, skills: Sequence[Skill], kind: str) -> None:
    where = shown_location(kept.location)
    if not skills:
        print_text(_nothing(kept.location, kind))
        return
    title = f"{counted(len(skills), f'{kind} skill')} in {where}{f': {kept.title}' if kept.title else ''}"
    print_table(["id", "skill", "reason", "evidence", "learned from"], [_row(skill) for skill in skills], title=title)
    for skill in skills:
        if skill.evidence:
            print_text(f"\n[{skill.id}] evidence:")
            for line in skill.evidence.splitlines():
                print_text(f"  {line}")


def _is_at_terminal() -> bool:
    return sys.stdin.isatty() and is_terminal(result_stream())


def _in_terminal(kept: KeptSkillbook) -> int:
    from ace.cli.reviewing.screen import review_in_terminal

    with opened(kept.location) as book:
        if not book.pending_skills():
            print_text(_nothing(kept.location, "pending"))
            return DONE
        check_writable(kept.location)
        if kept.title:
            print_text(f"{kept.title}\n")
        review_in_terminal(Decider(book, kept.location, landing_of(kept.location)))
    return _publish(kept)


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
    return _publish(kept)


def _publish(kept: KeptSkillbook) -> int:
    """Let the plugin that keeps a skillbook show its skills to agents."""
    try:
        for path in kept.publish():
            note(f"written: {path}")
    except (OSError, ValueError) as error:
        note(f"ace: the decision is saved, but agents cannot be shown it yet: {error}")
        return WITH_FAILURES
    return DONE


def _row(skill: Skill) -> list[str]:
    places = [place_of(source.trace_id) or source.sample_question for source in skill.sources]
    first = places[0] if places else "-"
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return [skill.id, skill.content, skill.reason, ", ".join(skill.evidences) or "none", f"{first or '-'}{more}"]


def _as_json(skill: Skill) -> dict[str, object]:
    return {**skill_as_json(skill), "evidences": list(skill.evidences)}
