"""`ace skillbook blame`: every change to a skill."""

from __future__ import annotations

from ace.cli.console import print_json, print_table
from ace.cli.errors import DONE
from ace.cli.learning.run_report import place_of
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.event_words import described
from ace.cli.skillbooks.history import newest_version
from ace.cli.skillbooks.lookup import bare_id, unknown_skill
from ace.cli.skillbooks.opening import location_of, opened
from ace.cli.wording import shown_time
from ace.skillbook.event_codec import event_dict
from ace.skillbook.events import Imported
from ace.skillbook.history import BlameEntry
from ace.skillbook.stores import shown_location

__all__ = ["command"]


def command(skill_id: str, /, *, skillbook: SkillbookOption = None, as_json: JsonFlag = False) -> int:
    """List every change to a skill, oldest first, with its time, its author and the sample that it was made for.

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
        newest_version(book, location)
        entries = book.blame(wanted)
        if not entries:
            raise unknown_skill(book, location, skill_id)
    if as_json:
        changes = [_as_json(entry, wanted) for entry in entries]
        print_json(
            {"command": "skillbook blame", "skillbook": shown_location(location), "skill": wanted, "changes": changes}
        )
        return DONE
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
    return DONE


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
