"""The formats that skills can be written in, and which one a path asks for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ace.cli.errors import UsageError
from ace.cli.skillbooks.opening import is_store
from ace.durable_file import replace_file
from ace.marked_block import write_marked_block
from ace.skillbook import Skillbook
from ace.skillbook.text_formats import LONGEST_DESCRIPTION, LONGEST_NAME, write_skill_folder

if TYPE_CHECKING:
    from ace.environments import Sample

__all__ = ["ExportFormat", "exported_text", "format_of", "write_export", "written_file"]

ExportFormat = Literal["json", "playbook", "markdown", "skill", "block", "samples"]

_BLOCK_FILES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md")
_BY_SUFFIX: dict[str, ExportFormat] = {
    ".json": "json",
    ".txt": "playbook",
    ".md": "markdown",
    ".markdown": "markdown",
    ".jsonl": "samples",
    "": "skill",
}


def format_of(path: Path) -> ExportFormat:
    """Return the format that a path asks for.

    Args:
        path: The file or folder.

    Raises:
        UsageError: The path does not tell.

    Example:
        >>> [format_of(Path(name)) for name in ("skills.json", "AGENTS.md", "notes.md", "skills/maths")]
        ['json', 'block', 'markdown', 'skill']
    """
    if path.is_dir():
        return "skill"
    if path.name in _BLOCK_FILES:
        return "block"
    if is_store(str(path)):
        raise UsageError(f"{str(path)!r} is a store; `ace skillbook merge` writes one")
    found = _BY_SUFFIX.get(path.suffix.lower())
    if found is None:
        raise UsageError(f"the name {path.name!r} does not determine the format; give it with --format")
    return found


def exported_text(book: Skillbook, export_format: ExportFormat) -> str:
    """Return the skills as a text.

    Args:
        book: The book.
        export_format: The format; one that consists of a single text.

    Raises:
        UsageError: The format is part of a file or folder.
    """
    match export_format:
        case "json":
            return book.dumps()
        case "playbook":
            return book.as_playbook()
        case "markdown":
            return f"{book.as_markdown()}\n"
        case "samples":
            return _samples_text(book)
        case "skill" | "block":
            raise UsageError(f"the format {export_format!r} needs a file or folder; give its path instead of -")


def written_file(path: Path, export_format: ExportFormat) -> Path:
    """Return the file that will be written.

    Args:
        path: What the user gave.
        export_format: The format.
    """
    return path / "SKILL.md" if export_format == "skill" and path.name != "SKILL.md" else path


def write_export(
    book: Skillbook, file: Path, export_format: ExportFormat, *, name: str | None, description: str | None
) -> None:
    """Write the skills.

    Args:
        book: The book.
        file: The file, as `written_file` gave it.
        export_format: The format.
        name: The name in a `SKILL.md`; by default that of its folder.
        description: What the skills are for, in a `SKILL.md`; by default their sections.

    Raises:
        UsageError: Coding agents would not accept the name or the description.
        MarkedBlockError: The marks in the file do not make one block.
        OSError: It cannot be written.
    """
    match export_format:
        case "json" | "playbook" | "markdown" | "samples":
            replace_file(file, exported_text(book, export_format).encode("utf-8"))
        case "block":
            write_marked_block(file, book.as_markdown())
        case "skill":
            try:
                write_skill_folder(
                    file.parent,
                    book.as_markdown(),
                    _name_of(file.parent) if name is None else name,
                    _description_of(book) if description is None else description,
                )
            except ValueError as error:
                raise UsageError(f"{error}; give --name and --description") from error


def _samples_text(book: Skillbook) -> str:
    """Return the cases as lines of JSON that `ace eval` and `ace train` read."""
    from ace.evaluation import case_samples

    return "".join(f"{json.dumps(_sample_dict(sample), ensure_ascii=False)}\n" for sample in case_samples(book))


def _sample_dict(sample: Sample) -> dict[str, object]:
    fields = {"id": sample.id, "question": sample.question, "context": sample.context}
    known = {name: value for name, value in fields.items() if value}
    return {**known, "ground_truth": sample.ground_truth, **sample.metadata}


def _name_of(folder: Path) -> str:
    words = re.findall(r"[a-z0-9]+", folder.resolve().name.lower())
    return "-".join(words)[:LONGEST_NAME].strip("-") or "learned-skills"


def _description_of(book: Skillbook) -> str:
    text = f"Strategies learned from earlier runs, about: {', '.join(book.sections()) or 'nothing yet'}"
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 3]}..."
