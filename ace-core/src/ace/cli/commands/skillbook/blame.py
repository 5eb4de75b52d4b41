"""`ace skillbook blame`: every change to a skill."""

from __future__ import annotations

from collections.abc import Sequence

from ace.cli.console import note, print_json, print_table, print_text, shown_time
from ace.cli.errors import DONE
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import described, newest_version, place_of
from ace.cli.skillbooks.opened_book import location_of, opened
from ace.cli.skillbooks.selection import bare_id, unknown_skill
from ace.cli.skillbooks.skill_output import print_cases, proof_as_json
from ace.skill import Skill
from ace.skillbook.events import Imported, event_dict
from ace.skillbook.history import BlameEntry
from ace.skillbook.locations import shown_location

__all__ = ["command"]


def command(skill_id: str, /, *, skillbook: SkillbookOption = None, as_json: JsonFlag = False) -> int:
    """List every change to a skill, oldest first, with the time, the author and the sample that caused it.

    If the skill names its evidence, or several traces taught it, those follow. Then comes the proof: each question that
    the skill was learned from, the wrong answer before, the correct answer, and whether, when and which model answered
    it correctly with the skill. A JSON skillbook has no history, so only the proof is shown.

    For example:

        ace skillbook blame maths-00001

    Args:
        skill_id: The id of the skill, which may have been removed since.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    wanted = bare_id(skill_id)
    with opened(location) as book:
        skill = book.get_skill(wanted)
        if book.version is None and (skill is None or not skill.cases):
            newest_version(book, location)  # says how to get a history
        entries = [] if book.version is None else book.blame(wanted)
        if not entries and skill is None:
            raise unknown_skill(book, location, skill_id)
        has_history = book.version is not None
    if as_json:
        changes = [_as_json(entry, wanted) for entry in entries]
        print_json(
            {
                "command": "skillbook blame",
                "skillbook": shown_location(location),
                "skill": wanted,
                "changes": changes,
                "evidence": None if skill is None else skill.evidence,
                "traces": [] if skill is None else _traces_of(skill),
                "proof": None if skill is None else proof_as_json(skill),
            }
        )
        return DONE
    if has_history:
        _print_changes(entries, wanted, location)
    else:
        note(f"ace: the skillbook {shown_location(location)!r} keeps no history, so only the proof is shown")
    if skill is not None and has_history:
        _print_evidence(skill)
    if skill is not None and skill.cases:
        if has_history:
            print_text("")
        print_cases(skill)
    return DONE


def _print_evidence(skill: Skill) -> None:
    """Print what supports a skill, and the traces that taught it if they are several."""
    traces = _traces_of(skill)
    facts = {"evidence": skill.evidence or "", "learned from": ", ".join(traces) if len(traces) > 1 else ""}
    if any(facts.values()):
        print_text("")
    for name, value in facts.items():
        if value:
            print_text(f"{name}: {value}")


def _traces_of(skill: Skill) -> list[str]:
    return list(dict.fromkeys(place_of(source.trace_id) for source in skill.sources if source.trace_id))


def _print_changes(entries: Sequence[BlameEntry], wanted: str, location: str) -> None:
    print_table(
        ["version", "time (UTC)", "by", "sample", "change"],
        [
            [
                str(entry.version),
                shown_time(entry.at),
                entry.author or "-",
                "-" if entry.key is None else place_of(entry.key.sample),
                described(entry.event, wanted),
            ]
            for entry in entries
        ],
        title=f"{wanted} in {shown_location(location)}",
    )


def _as_json(entry: BlameEntry, skill_id: str) -> dict[str, object]:
    event = entry.event
    if isinstance(event, Imported):  # of what came in together, only this skill
        event = Imported(tuple(skill for skill in event.skills if skill.id == skill_id), (), event.next_id)
    return {
        "version": entry.version,
        "at": entry.at,
        "author": entry.author,
        "sample": None if entry.key is None else entry.key._asdict(),
        "change": event_dict(event),
        "text": described(event, skill_id),
    }
