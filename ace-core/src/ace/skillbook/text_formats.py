"""Skillbooks as text for people and agents: the playbook format, Markdown bullets, and `SKILL.md` folders."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ace.atomic_file import replace_file
from ace.skill import Skill
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.line_formats import one_line
from ace.skillbook.state import BookContents, BookState, citable_ids, number_after, skill_id, with_citable_ids

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_HEADING = re.compile(r"#{1,6}\s+(.*?)(?:\s+#+)?\s*\Z")
_PLAYBOOK_LINE = re.compile(
    r"\[(?P<id>[^\[\]\s]+)\]\s+helpful=(?P<helpful>\d{1,16})\s+harmful=(?P<harmful>\d{1,16})"
    r"(?:\s+neutral=(?P<neutral>\d{1,16}))?\s*::\s*(?P<content>.*)\Z"
)
_BULLET = re.compile(r"[-*+]\s+(?:\[(?P<id>[^\[\]\s]+)\](?!\()\s*)?(?P<content>.*)\Z")
_COUNTS = re.compile(r"(?<!\s)\s*\(helpful (?P<helpful>\d{1,16}), harmful (?P<harmful>\d{1,16})\)\Z")


def playbook_text(state: BookState) -> str:
    """Return the active skills as `## SECTION` headings with `[id] helpful=5 harmful=0 :: content` lines."""
    parts = []
    skills = state.ordered_skills()
    renamed = citable_ids(list(skills))  # an older store may have ids that cannot be written in a line
    for name in state.ordered_sections():
        lines = [
            f"[{renamed.get(id, id)}] helpful={skill.helpful} harmful={skill.harmful} :: {one_line(skill.content)}"
            for id in state.sections[name]
            if (skill := skills[id]).is_active
        ]
        if lines:
            parts.append("\n".join([f"## {one_line(name) or 'general'}", *lines]))
    return "\n\n".join(parts) + "\n" if parts else ""


def read_text_book(text: str, at: str) -> BookContents:
    """Read a playbook, or Markdown headings with bullets.

    Paragraphs in between are ignored. A line that is indented under a bullet continues it.

    Args:
        text: The text of the file.
        at: The timestamp of the new skills.

    Raises:
        SkillbookFileError: If no skill is found, or an id appears twice.
    """
    entries: list[dict[str, str | int | None]] = []
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if heading := _HEADING.match(stripped):
            section = one_line(heading.group(1))
        elif found := _entry(stripped):
            entries.append({**found, "section": section, "line": number})
        elif stripped and entries and line[:1] in " \t" and entries[-1]["section"] == section:
            entries[-1]["content"] = f"{entries[-1]['content']}\n{stripped}"
    return _contents(entries, at)


def _entry(line: str) -> dict[str, str | int | None] | None:
    if match := _PLAYBOOK_LINE.match(line):
        return _fields(match.groupdict())
    if match := _BULLET.match(line):
        fields = match.groupdict()
        if counts := _COUNTS.search(fields["content"]):
            fields |= counts.groupdict()
            fields["content"] = fields["content"][: counts.start()]
        if playbook := _PLAYBOOK_LINE.match(line.lstrip("-*+ \t")):
            fields = playbook.groupdict()
        return _fields(fields)
    return None


def _fields(found: dict[str, str]) -> dict[str, str | int | None] | None:
    if not found["content"].strip():
        return None
    counts = {tag: int(found.get(tag) or 0) for tag in ("helpful", "harmful", "neutral")}
    return {"id": found.get("id"), "content": found["content"].strip(), **counts}


def _contents(entries: list[dict[str, str | int | None]], at: str) -> BookContents:
    if not entries:
        raise SkillbookFileError(
            "no skills found in this text: a skill is a bullet point or a line '[id] helpful=0 harmful=0 :: text'"
        )
    contents = BookContents()
    given = [str(entry["id"]) for entry in entries if entry["id"]]
    number = number_after(given)
    seen: set[str] = set()
    for entry in entries:
        section = str(entry["section"])
        if entry["id"]:
            id = str(entry["id"])
        else:
            id = skill_id(section, number)
            number += 1
        if id in seen:
            raise SkillbookFileError(f"the id {id!r} appears twice", place=f"line {entry['line']}")
        seen.add(id)
        helpful, harmful, neutral = (int(entry[tag] or 0) for tag in ("helpful", "harmful", "neutral"))
        skill = Skill(id, section, str(entry["content"]), helpful, harmful, neutral, created_at=at, updated_at=at)
        contents.skills.append(skill)
    contents.next_id = number
    return with_citable_ids(contents)


def skill_file_text(markdown: str, name: str, description: str) -> str:
    """Return the text of a `SKILL.md`.

    Args:
        markdown: The skills as Markdown.
        name: Lower case letters, digits and single hyphens, at most 64 characters.
        description: The purpose of the skills, as one line of at most 1,024 characters.

    Raises:
        ValueError: If the name or the description is invalid.
    """
    if len(name) > LONGEST_NAME or not _NAME.match(name):
        raise ValueError(
            f"{name!r} is not a valid name for a skill folder: use lower case letters, digits and single hyphens"
        )
    line = " ".join(description.split())
    if not line or len(line) > LONGEST_DESCRIPTION:
        raise ValueError(f"the description must have 1 to {LONGEST_DESCRIPTION} characters, got {len(line)}")
    head = f"---\nname: {name}\ndescription: {json.dumps(line, ensure_ascii=False)}\n---\n"
    introduction = "Strategies learned from earlier runs. Cite the ones you use by their ids."
    return f"{head}\n# {name}\n\n{introduction}\n\n{markdown}\n"


def write_skill_folder(folder: str | Path, markdown: str, name: str, description: str) -> Path:
    """Write `SKILL.md` into a folder, which is created if it is missing, and return its path."""
    target = Path(folder) / "SKILL.md"
    replace_file(target, skill_file_text(markdown, name, description).encode("utf-8"))
    return target
