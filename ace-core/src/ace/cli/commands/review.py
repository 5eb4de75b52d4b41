"""`ace review`: what learning keeps from agents until there is evidence or a decision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, note, print_json, print_table, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.options import Flag, JsonFlag
from ace.cli.skillbooks.history import place_of, undo_command
from ace.cli.skillbooks.opening import check_writable, location_of, opened, save
from ace.cli.skillbooks.selection import find_skill
from ace.cli.skillbooks.skill_output import print_changes, skill_as_json
from ace.plugins import KeptSkillbook, kept_skillbooks
from ace.skill import INVALID, Skill
from ace.skillbook.locations import has_scheme, shown_location

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
    found = [(book, _listed(book.location, rejected=rejected)) for book in books]
    kind = "rejected" if rejected else "pending"
    if as_json:
        skills = [{**_as_json(skill), "skillbook": shown_location(book.location)} for book, of in found for skill in of]
        print_json({"command": "review", "skillbook": shown_location(books[0].location), kind: skills})
        return DONE
    for book, skills_of_book in found:
        _print(book, skills_of_book, kind)
    return DONE


def _reviewed(skillbook: str | None) -> list[KeptSkillbook]:
    """Return the skillbook that was named; without one, that of the settings and those that plugins keep here."""
    location, kept = location_of(skillbook), kept_skillbooks(Path.cwd())
    named = [book for book in kept if book.location == location] or [KeptSkillbook(location, "", lambda: ())]
    if skillbook is not None:
        return named
    others = [book for book in kept if book.location != location]
    return [*named, *others] if has_scheme(location) or Path(location).exists() or not others else others


def _listed(location: str, *, rejected: bool) -> list[Skill]:
    with opened(location) as book:
        return book.rejected_skills() if rejected else book.pending_skills()


def _print(book: KeptSkillbook, skills: Sequence[Skill], kind: str) -> None:
    where = shown_location(book.location)
    if not skills:
        print_text(f"No skill in {where} is {kind}.")
        return
    title = f"{counted(len(skills), f'{kind} skill')} in {where}{f': {book.title}' if book.title else ''}"
    print_table(["id", "skill", "reason", "evidence", "learned from"], [_row(skill) for skill in skills], title=title)
    for skill in skills:
        if skill.evidence:
            print_text(f"\n[{skill.id}] evidence:")
            for line in skill.evidence.splitlines():
                print_text(f"  {line}")


def _owner(books: Sequence[KeptSkillbook], ids: Sequence[str]) -> KeptSkillbook:
    """Return the skillbook that has the skills."""
    if len(books) == 1:
        return books[0]
    known: dict[str, list[KeptSkillbook]] = {}
    for book in books:
        with opened(book.location) as skills:
            for id in ids:
                known[id] = [*known.get(id, []), *([book] if id.strip("[]") in skills else [])]
    owners = list({book.location: book for found in known.values() for book in found}.values())
    if len(owners) > 1:
        where = " or ".join(shown_location(book.location) for book in owners)
        raise UsageError(f"these skills are in several skillbooks, so nothing was changed; name one of them: {where}")
    return (owners or books)[0]


def _decide(
    kept: KeptSkillbook, accepted: Sequence[str], refused: Sequence[str], because: str, *, as_json: bool
) -> int:
    location = kept.location
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
    return _publish(kept)


def _publish(kept: KeptSkillbook) -> int:
    try:
        for path in kept.publish():
            note(f"written: {path}")
    except (OSError, ValueError) as error:
        note(f"ace: the decision is saved, but agents cannot be shown it yet: {error}")
        return WITH_FAILURES
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
