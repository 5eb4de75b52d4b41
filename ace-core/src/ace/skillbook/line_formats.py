"""How a skill becomes a line of a prompt, and how lines become a prompt, in four formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring as quote
from typing import Final, NamedTuple

from ace.skill import ACTIVE, Skill


class LineFormat(NamedTuple):
    """One way to write skills."""

    lines: Callable[[Iterable[Skill]], dict[str, str]]
    """The text of each active skill, by id."""
    separator: str
    """What stands between the lines of a section."""
    section: Callable[[str, str], str]
    """From the name of a section and its joined lines to the text of the section."""
    book: Callable[[Sequence[str], int], str]
    """From the texts of the sections and the number of skills to the whole."""
    ranked: Callable[[Sequence[str]], str]
    """From lines in order of relevance to the whole, without sections."""


def one_line(text: str) -> str:
    """Return the text with every run of blanks and line ends as one blank."""
    return " ".join(text.split())


def _markdown_lines(skills: Iterable[Skill]) -> dict[str, str]:
    """Return bullets. Written out in one expression, since a cold prompt costs this for every skill."""
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
    # One look at all ids together: only an older store can hold some that break a line.
    if not "".join(lines).isprintable():
        lines = {id: f"- [{one_line(id)}{line[len('- [') + len(id) :]}" for id, line in lines.items()}
    return lines


def _indented(content: str) -> str:
    """Return a text of several lines so that none of them can be a heading or a bullet of its own."""
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
    """Return the text so that it can end neither an element nor an attribute."""
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
    """Return the text as a TOON value: quoted wherever a reader could take it for something else."""
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
