"""`ace skillbook diff`: the differences between two versions or two skillbooks."""

from __future__ import annotations

from pathlib import Path

from ace.cli.console import counted, print_json, print_table
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import check_version, newest_version
from ace.cli.skillbooks.opened_book import location_of, opened
from ace.cli.skillbooks.skill_output import skill_as_json
from ace.skill import Skill
from ace.skillbook.history import SkillbookDiff, compared_skills
from ace.skillbook.locations import shown_location

__all__ = ["command"]


def command(
    first: str, second: str | None = None, /, *, skillbook: SkillbookOption = None, as_json: JsonFlag = False
) -> int:
    """Show the differences between two versions, or between two skillbooks.

    For example:

        ace skillbook diff 3
        ace skillbook diff 3 5
        ace skillbook diff mine.json theirs.db

    Args:
        first: A version, or a skillbook.
        second: The version or skillbook to compare with. [default: the skillbook as it is now]
        skillbook: The skillbook whose versions are compared. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    if _is_version(first) and (second is None or _is_version(second)):
        names, difference = _of_versions(int(first), second, location_of(skillbook))
    elif _is_version(first) or (second is not None and _is_version(second)):
        raise UsageError(f"{first!r} and {second!r} cannot be compared: give two versions, or two files")
    else:
        books = (first, location_of(skillbook) if second is None else second)
        difference = _of_books(*books)
        names = (shown_location(books[0]), shown_location(books[1]))
    if as_json:
        print_json({"command": "skillbook diff", "first": names[0], "second": names[1], **_as_json(difference)})
    else:
        _print(names, difference)
    return DONE


def _is_version(text: str) -> bool:
    return text.isdecimal() and not Path(text).exists()


def _of_versions(first: int, second: str | None, location: str) -> tuple[tuple[str, str], SkillbookDiff]:
    with opened(location) as book:
        newest = newest_version(book, location)
        last = newest if second is None else int(second)
        check_version(book, location, first)
        check_version(book, location, last)
        return (f"version {first}", f"version {last}"), book.diff(first, last)


def _of_books(first: str, second: str) -> SkillbookDiff:
    with opened(first) as before, opened(second) as after:
        return compared_skills(before.skills(include_invalid=True), after.skills(include_invalid=True))


def _changed_fields(before: Skill, after: Skill) -> dict[str, dict[str, object]]:
    old, new = ({"cases": [], **skill_as_json(skill)} for skill in (before, after))
    return {name: {"before": old[name], "after": new[name]} for name in new if old[name] != new[name]}


def _as_json(difference: SkillbookDiff) -> dict[str, object]:
    return {
        "added": [skill_as_json(skill) for skill in difference.added],
        "removed": [skill_as_json(skill) for skill in difference.removed],
        "changed": [
            {"id": before.id, "fields": _changed_fields(before, after)} for before, after in difference.changed
        ],
    }


def _print(names: tuple[str, str], difference: SkillbookDiff) -> None:
    rows = [
        *(["added", skill.id, "content", "", skill.content] for skill in difference.added),
        *(["removed", skill.id, "content", skill.content, ""] for skill in difference.removed),
        *(
            ["changed", before.id, name, *(_shown(name, values[side]) for side in ("before", "after"))]
            for before, after in difference.changed
            for name, values in _changed_fields(before, after).items()
        ),
    ]
    counts = f"{len(difference.added)} added, {len(difference.removed)} removed, {len(difference.changed)} changed"
    print_table(["change", "skill", "field", *names], rows, title=f"{names[0]} to {names[1]}: {counts}")


def _shown(name: str, value: object) -> str:
    if name == "sources" and isinstance(value, list):
        return counted(len(value), "source")
    if name == "cases" and isinstance(value, list):
        return ", ".join(f"{case['id']} {case['last_result'].replace('_', ' ')}" for case in value) or "-"
    return "-" if value is None else str(value)
