"""Skillbooks as text for people and agents: playbook and `[Bullet ...]` lines, and Markdown."""

from __future__ import annotations

import re
from pathlib import Path

from ace._internal.arguments import instance_of
from ace.skill import InsightSource, Skill
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.json_file import whole_file
from ace.skillbook.line_formats import one_line
from ace.skillbook.state import BookContents, BookState, citable_ids, number_after, skill_id, with_citable_ids

_MOST_INSTANCES = 1000
"""A text with a larger number must not fill the memory with sources."""

_HEADING = re.compile(r"#{1,6}\s+(.*?)(?:(?<!\s)\s+#+)?\Z")
_PLAYBOOK_LINE = re.compile(
    r"\[(?P<id>[^\[\]\s]+)\]\s+helpful=(?P<helpful>\d{1,16})\s+harmful=(?P<harmful>\d{1,16})"
    r"(?:\s+neutral=(?P<neutral>\d{1,16}))?\s*::\s*(?P<content>.*)\Z"
)
_BULLET_LINE = re.compile(
    r"(?:[-*+]\s+)?\[Bullet\s+\#(?P<id>[^\[\]\s]+?)\s*,\s*helpful:\s*(?P<helpful>\d{1,16})\s*,\s*"
    r"harmful:\s*(?P<harmful>\d{1,16})\s*(?:,\s*Aggregated\s+from\s+(?P<instances>\d{1,16})\s+instances?\s*)?\]\s*"
    r"(?P<content>.*)\Z"
)
_BULLET = re.compile(r"[-*+]\s+(?:\[(?P<id>[^\[\]\s]+)\](?!\()\s*)?(?P<content>.*)\Z")
_INDENT = "  "
"""What the lines of a skill after its first one begin with; see `plain_line`."""
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


def bullet_lines_text(state: BookState) -> str:
    """Return the active skills as headings with `[Bullet #ID, helpful:N, harmful:M] text` lines.

    The number of the sources of a skill follows its counters, if it has several: `, Aggregated from 3 instances`.
    """
    parts = []
    skills = state.ordered_skills()
    renamed = citable_ids(list(skills))
    for name in state.ordered_sections():
        active = [skills[id] for id in state.sections[name] if skills[id].is_active]
        if active:
            lines = (_bullet_line(renamed.get(skill.id, skill.id), skill) for skill in active)
            parts.append("\n".join([f"## {one_line(name) or 'general'}", *lines]))
    return "\n\n".join(parts) + "\n" if parts else ""


def _bullet_line(id: str, skill: Skill) -> str:
    count = len(skill.sources)
    instances = f", Aggregated from {count} instances" if count > 1 else ""
    return f"[Bullet #{id}, helpful:{skill.helpful}, harmful:{skill.harmful}{instances}] {one_line(skill.content)}"


def bullet_lines_in(text: str) -> str:
    """Return the headings and the `[Bullet #ID, ...] text` lines of a text, whose other lists are not skills.

    Args:
        text: The text of a file such as AGENTS.md.

    Returns:
        The text with every other line blank, so that lines keep their numbers; empty if none of them is a skill.
    """
    lines = [(line, _BULLET_LINE.match(line.strip()) is not None) for line in text.splitlines()]
    if not any(is_skill for _, is_skill in lines):
        return ""
    return "\n".join(line if is_skill or _HEADING.match(line.strip()) else "" for line, is_skill in lines)


def read_text_file(path: Path, at: str) -> BookContents:
    """Read a file as `read_text_book` does; an error names the file."""
    try:
        return read_text_book(whole_file(path).decode("utf-8-sig"), at)
    except UnicodeDecodeError as error:
        raise SkillbookFileError("the file is not UTF-8", path=path, place=f"byte {error.start}") from error
    except SkillbookFileError as error:
        raise error.at(path) from error


def read_text_book(text: str, at: str) -> BookContents:
    """Read a playbook, `[Bullet #ID, ...] text` lines, or Markdown headings with bullets.

    Paragraphs in between are ignored. A line that is indented under a bullet continues it. Under a bullet with an id,
    so does one that looks like a bullet or a heading, since the text of a skill may have such lines. For a line that
    was aggregated from several instances, the skill has as many sources (1,000 at most), which are named after its id.

    Args:
        text: The text of the file.
        at: The timestamp of the new skills.

    Raises:
        SkillbookFileError: If no skill is found, or an id appears twice.
    """
    instance_of("text", text, str)
    entries: list[dict[str, str | int | None]] = []
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if entries and entries[-1]["id"] and line.startswith(_INDENT):
            entries[-1]["content"] = f"{entries[-1]['content']}\n{line.removeprefix(_INDENT).rstrip()}"
        elif heading := _HEADING.match(stripped):
            section = one_line(heading.group(1))
        elif found := _entry(stripped):
            entries.append({**found, "section": section, "line": number})
        elif stripped and entries and line[:1] in " \t" and entries[-1]["section"] == section:
            entries[-1]["content"] = f"{entries[-1]['content']}\n{stripped}"
    return _contents(entries, at)


def has_skills(text: str) -> bool:
    """Return whether `read_text_book` finds a skill in a text."""
    return any(_entry(line.strip()) for line in text.splitlines())


def _entry(line: str) -> dict[str, str | int | None] | None:
    if match := _PLAYBOOK_LINE.match(line) or _BULLET_LINE.match(line):
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
    instances = int(found.get("instances") or 0)
    return {"id": found.get("id"), "content": found["content"].strip(), **counts, "instances": instances}


def _contents(entries: list[dict[str, str | int | None]], at: str) -> BookContents:
    if not entries:
        raise SkillbookFileError(
            "no skills found in this text: a skill is a bullet point, or a line '[id] helpful=0 harmful=0 :: text' or "
            "'[Bullet #id, helpful:0, harmful:0] text'"
        )
    contents = BookContents()
    ids = [str(entry["id"]) for entry in entries if entry["id"]]
    number = number_after(ids)
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
        content = str(entry["content"]).rstrip()
        if "\n" in content and (counts := _COUNTS.search(content)):  # they follow the last line
            entry |= {tag: int(count) for tag, count in counts.groupdict().items()}
            content = content[: counts.start()]
        helpful, harmful, neutral = (int(entry[tag] or 0) for tag in ("helpful", "harmful", "neutral"))
        skill = Skill(
            id,
            section,
            content,
            helpful,
            harmful,
            neutral,
            created_at=at,
            updated_at=at,
            sources=_instances(id, int(entry["instances"] or 0)),
        )
        contents.skills.append(skill)
    contents.next_id = number
    return with_citable_ids(contents)


def _instances(id: str, count: int) -> tuple[InsightSource, ...]:
    """Return a source for each instance that a skill was aggregated from, of which the text only has the number."""
    known = min(count, _MOST_INSTANCES)
    return tuple(InsightSource(f"{id}#{number}") for number in range(1, known + 1)) if known > 1 else ()
