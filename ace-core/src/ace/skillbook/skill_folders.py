"""Writes skills as skill folders after the Agent Skills specification, which coding agents load when they need them.

An agent reads the names and descriptions of all folders, and opens the `SKILL.md` whose description fits its task. So
there is a folder for each section, and the description says what it is about and quotes the tasks that need it.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from ace._internal.arguments import file_path
from ace._internal.atomic_file import replace_file
from ace._internal.hidden_characters import with_hidden_shown
from ace.skill import Skill
from ace.skillbook.line_formats import FORMATS, one_line

__all__ = [
    "SKILL_FILE",
    "SkillFolder",
    "as_skill_folders",
    "foreign_files",
    "write_skill_folder",
    "write_skill_folders",
]

SKILL_FILE: Final = "SKILL.md"
"""The file with the name, the description and the body of a skill folder."""
_LONGEST_NAME: Final = 64
_LONGEST_DESCRIPTION: Final = 1024
_MOST_LINES: Final = 480
"""The number of lines with skills in one file. The specification wants less than 500 in the body."""
_LONGEST_QUOTE: Final = 120
_LONGEST_TOPICS: Final = 200
_ROOM_FOR_NUMBER: Final = 5
_WORD: Final = re.compile(r"[^\W_]+")
_NAME: Final = re.compile(r"[^\W_]+(-[^\W_]+)*\Z")
_WRITTEN_BY_US: Final = '\n  written-by: "ace"\n'
_NO_DESCRIPTION: Final = re.compile(r"[<>]|-(?=-)")
"""What a description must not contain: marks of tags, and the line that ends the head."""


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """The contents of one skill folder."""

    name: str
    """The name of the folder and of the skill."""
    description: str
    """What it is about, and when an agent needs it."""
    markdown: str
    """The skills."""
    metadata: Mapping[str, str]
    """Where they come from."""

    def text(self) -> str:
        """Return the text of its `SKILL.md`.

        Raises:
            ValueError: If the name or the description is not valid.
        """
        if len(self.name) > _LONGEST_NAME or not _NAME.match(self.name) or self.name != self.name.lower():
            raise ValueError(
                f"{self.name!r} is not a valid name for a skill folder: use lower case letters, digits and single "
                "hyphens"
            )
        line = one_line(self.description)
        if not line or len(line) > _LONGEST_DESCRIPTION:
            raise ValueError(f"the description must have 1 to {_LONGEST_DESCRIPTION} characters, got {len(line)}")
        metadata = [f"  {name}: {_quoted(value)}" for name, value in self.metadata.items()]
        head = [f"name: {self.name}", f"description: {_quoted(line)}", *(["metadata:", *metadata] if metadata else [])]
        introduction = "Strategies learned from earlier runs. Cite the ones you use by their ids."
        return "\n".join(["---", *head, "---", "", f"# {self.name}", "", introduction, "", self.markdown, ""])


def as_skill_folders(skills: Iterable[Skill]) -> list[SkillFolder]:
    """Return a folder for each section of the active skills; sections whose names give the same name share one.

    A section that is too long for one file is divided.

    Args:
        skills: The skills, in the order of the skillbook.

    Example:
        >>> [folder] = as_skill_folders([Skill("a-00001", "Unit checks", "Convert before you add.")])
        >>> folder.name
        'unit-checks'
        >>> print(folder.description)
        Rules learned in earlier runs about Unit checks. Use for tasks that involve this: Convert before you add.
    """
    groups: dict[str, list[Skill]] = {}
    for skill in skills:
        if skill.is_active:
            groups.setdefault(_name_of(skill.section), []).append(skill)
    folders: dict[str, SkillFolder] = {}
    for name, members in groups.items():
        for part in _parts(members):
            free = (
                name
                if name not in folders
                else next(
                    other
                    for number in range(2, len(groups) + len(members) + 2)
                    if (other := f"{name}-{number}") not in folders and other not in groups
                )
            )
            folders[free] = SkillFolder(free, _description(part), _markdown(part), _metadata(part))
    return list(folders.values())


def write_skill_folder(folder: str | Path, markdown: str, name: str, description: str) -> Path:
    """Write `SKILL.md` into a folder, which is created if it is missing, and return its path."""
    file_path("folder", folder)
    target = Path(folder) / SKILL_FILE
    replace_file(target, SkillFolder(name, description, markdown, {}).text().encode("utf-8"))
    return target


def write_skill_folders(folder: str | Path, skills: Sequence[Skill]) -> list[Path]:
    """Write a skill folder for each section into a folder, and remove those of sections without an active skill.

    Args:
        folder: The folder of the skill folders, such as `.claude/skills`; it is created if it is missing.
        skills: All skills of the skillbook, in its order. Those that are not active name sections of earlier folders.

    Returns:
        The `SKILL.md` files.
    """
    file_path("folder", folder)
    written = []
    for found in as_skill_folders(skills):
        written.append(Path(folder) / found.name / SKILL_FILE)
        replace_file(written[-1], found.text().encode("utf-8"))
    for file in _own_files(Path(folder), {_name_of(skill.section) for skill in skills}):
        if file not in written:
            file.unlink()
            with contextlib.suppress(OSError):  # the user keeps other files there
                file.parent.rmdir()
    return written


def foreign_files(folder: str | Path, skills: Iterable[Skill]) -> list[Path]:
    """Return the files that `write_skill_folders` would replace although it has not written them."""
    files = [Path(folder) / found.name / SKILL_FILE for found in as_skill_folders(skills)]
    return [file for file in files if file.exists() and not _is_own(file)]


def _own_files(folder: Path, names: set[str]) -> Iterator[Path]:
    """Yield the files that were written for these sections."""
    for file in sorted(folder.glob(f"*/{SKILL_FILE}")):
        name, _, number = file.parent.name.rpartition("-")
        is_named = file.parent.name in names or (number.isdecimal() and name in names)
        if is_named and not file.parent.is_symlink() and file.is_file() and _is_own(file):
            yield file


def _is_own(file: Path) -> bool:
    head, _, _ = file.read_bytes().decode("utf-8", "replace").partition("\n---\n")
    return _WRITTEN_BY_US in f"{head}\n"


def _name_of(section: str) -> str:
    """Return the name of the folder of a section: its words, without accents and signs."""
    plain = unicodedata.normalize("NFKD", section).lower()
    words = _WORD.findall(
        unicodedata.normalize("NFKC", "".join(sign for sign in plain if not unicodedata.combining(sign)))
    )
    return "-".join(words)[: _LONGEST_NAME - _ROOM_FOR_NUMBER].strip("-") or "learned-skills"


def _parts(skills: Sequence[Skill]) -> Iterator[Sequence[Skill]]:
    """Divide skills into parts that fit into one file."""
    part: list[Skill] = []
    lines = 0
    for skill in skills:
        own = len(skill.content.splitlines())
        if part and lines + own > _MOST_LINES:
            yield part
            part, lines = [], 0
        part.append(skill)
        lines += own
    yield part


def _markdown(skills: Sequence[Skill]) -> str:
    form = FORMATS["markdown"]
    lines = form.lines(skills)
    sections: dict[str, list[str]] = {}
    for skill in skills:
        sections.setdefault(skill.section, []).append(lines[skill.id])
    return form.book([form.section(name, form.separator.join(own)) for name, own in sections.items()], len(skills))


def _description(skills: Sequence[Skill]) -> str:
    """Say what the skills are about, and when they are needed: in the words of the questions that taught them."""
    topics = _shortened(
        ", ".join(dict.fromkeys(_plain(skill.section) or "general" for skill in skills)), _LONGEST_TOPICS
    )
    about = f"Rules learned in earlier runs about {topics}."
    questions = _in_turn([_questions(skill) for skill in skills])
    if questions:
        return _filled(f"{about} Use for tasks such as:", [f'"{question}"' for question in questions])
    return _filled(
        f"{about} Use for tasks that involve this:",
        [_shortened(_plain(skill.content), _LONGEST_QUOTE) for skill in skills],
    )


def _questions(skill: Skill) -> list[str]:
    asked = [*(case.question for case in skill.cases), *(source.sample_question for source in skill.sources)]
    return [_shortened(_plain(question), _LONGEST_QUOTE) for question in asked if question.strip()]


def _in_turn(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the first elements of all lists, then the second ones, and so on, each text once."""
    return list(dict.fromkeys(text for text in chain.from_iterable(zip_longest(*lists)) if text))


def _filled(beginning: str, texts: Iterable[str]) -> str:
    """Return the beginning with as many texts as a description may have."""
    for text in texts:
        longer = f"{beginning}{' ' if beginning.endswith(':') else '; '}{text}"
        if len(longer) > _LONGEST_DESCRIPTION:
            return beginning
        beginning = longer
    return beginning


def _plain(text: str) -> str:
    """Return a text as one visible line that can be part of a description."""
    return _NO_DESCRIPTION.sub(" ", one_line(with_hidden_shown(text.replace("\n", " "))))


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest].rsplit(' ', 1)[0].rstrip(' ,;')} ..."


def _metadata(skills: Sequence[Skill]) -> dict[str, str]:
    proofs = [skill.proof for skill in skills]
    kinds = dict.fromkeys(kind for skill in skills for kind in skill.evidences)
    runs = {source.trace_id for skill in skills for source in skill.sources}
    return {
        "written-by": "ace",
        "learned-from": f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}",
        "evidence": ", ".join(kinds) or "none",
        "proof": ", ".join(f"{proofs.count(proof)} {proof}" for proof in dict.fromkeys(proofs)),
    }


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
