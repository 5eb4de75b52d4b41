"""Formats skills as lines of a prompt, and lines as a prompt, in four formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring as quote
from typing import Final, NamedTuple

from ace.skill import ACTIVE, Skill


class LineFormat(NamedTuple):
    """A format for skills in a prompt."""

    lines: Callable[[Iterable[Skill]], dict[str, str]]
    """The text of each active skill, by id."""
    separator: str
    """The separator between the lines of a section."""
    section: Callable[[str, str], str]
    """Formats a section from its name and its joined lines."""
    book: Callable[[Sequence[str], int], str]
    """Formats the whole text from the texts of the sections and the number of skills."""
    ranked: Callable[[Sequence[str]], str]
    """Formats the whole text from lines in order of relevance, without sections."""


def one_line(text: str) -> str:
    """Return the text as one line, with whitespace collapsed."""
    return " ".join(text.split())


def plain_line(skill: Skill) -> str:
    """Return a bullet with the id and the text of a skill, without its counters."""
    content = skill.content if "\n" not in skill.content else _indented(skill.content)
    return f"- [{skill.id if skill.id.isprintable() else one_line(skill.id)}] {content}"


def _markdown_lines(skills: Iterable[Skill]) -> dict[str, str]:
    """Return bullets. This is a single expression because it runs for every skill of an uncached prompt."""
    lines = {
        skill.id: (
            f"- [{skill.id}] {content} (helpful {skill.helpful}, harmful {skill.harmful})"
            if skill.helpful or skill.harmful
            else f"- [{skill.id}] {content}"
        )
        for skill in skills
        if skill.status == ACTIVE
        for content in [skill.content if "\n" not in skill.content else _indented(skill.content)]
    }
    # All ids are checked at once, since only an older store can have some that break a line.
    if not "".join(lines).isprintable():
        lines = {id: f"- [{one_line(id)}{line[len('- [') + len(id) :]}" for id, line in lines.items()}
    return lines


def _indented(content: str) -> str:
    """Return a multi-line text, indented so that no line can be read as a heading or a bullet."""
    return "\n  ".join(content.splitlines())


def _each(line: Callable[[Skill], str]) -> Callable[[Iterable[Skill]], dict[str, str]]:
    return lambda skills: {skill.id: line(skill) for skill in skills if skill.status == ACTIVE}


def _markdown_section(name: str, lines: str) -> str:
    return f"## {one_line(name) or 'general'}\n{lines}"


def _xml_line(skill: Skill) -> str:
    return (
        f'    <skill id="{_xml_text(skill.id)}" section="{_xml_text(skill.section)}" '
        f'helpful="{skill.helpful}" harmful="{skill.harmful}">{_xml_text(skill.content)}</skill>'
    )


def _xml_text(text: str) -> str:
    """Return the text escaped for XML elements and attributes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _xml_book(sections: Sequence[str], count: int) -> str:
    return "<skills>\n" + "\n".join(sections) + "\n</skills>"


def _json_line(skill: Skill) -> str:
    return (
        f'{{"id":{quote(skill.id)},"section":{quote(skill.section)},"content":{quote(skill.content)},'
        f'"helpful":{skill.helpful},"harmful":{skill.harmful}}}'
    )


def _json_book(sections: Sequence[str], count: int) -> str:
    return "[" + ",\n".join(sections) + "]"


def _toon_line(skill: Skill) -> str:
    fields = (_toon_text(skill.id), _toon_text(skill.section), _toon_text(skill.content))
    return f"  {','.join(fields)},{skill.helpful},{skill.harmful}"


def _toon_text(text: str) -> str:
    """Return the text as a TOON value, quoted if it would otherwise be ambiguous."""
    plain = (
        text == text.strip()
        and text.isprintable()
        and text not in ("", "true", "false", "null")
        and not any(sign in text for sign in ',:"\\[]{}')
        and not text.startswith(("-", "#"))
        and not text[0].isdigit()
    )
    return text if plain else json.dumps(text, ensure_ascii=False)


def _toon_book(sections: Sequence[str], count: int) -> str:
    return f"skills[{count}]{{id,section,content,helpful,harmful}}:\n" + "\n".join(sections)


def _lines_alone(name: str, lines: str) -> str:
    return lines


FORMATS: Final[dict[str, LineFormat]] = {
    "markdown": LineFormat(
        _markdown_lines, "\n", _markdown_section, lambda sections, count: "\n\n".join(sections), "\n".join
    ),
    "xml": LineFormat(_each(_xml_line), "\n", _lines_alone, _xml_book, lambda lines: _xml_book(lines, len(lines))),
    "toon": LineFormat(_each(_toon_line), "\n", _lines_alone, _toon_book, lambda lines: _toon_book(lines, len(lines))),
    "json": LineFormat(_each(_json_line), ",\n", _lines_alone, _json_book, lambda lines: _json_book(lines, len(lines))),
}
