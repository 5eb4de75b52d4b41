"""`ace skillbook export`: writes the skills in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import print_json, print_text
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption, YesFlag
from ace.cli.skillbooks.confirmation import ask
from ace.cli.skillbooks.export_formats import ExportFormat, format_of, write_export, written_file
from ace.cli.skillbooks.opening import location_of, opened
from ace.cli.wording import counted
from ace.marked_block import MarkedBlockError

__all__ = ["command"]


def command(
    path: str,
    /,
    *,
    export_format: Annotated[ExportFormat | None, Parameter(name="--format")] = None,
    name: str | None = None,
    description: str | None = None,
    skillbook: SkillbookOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Write the skills in another format.

    The path tells the format: .json is the whole skillbook, .txt playbook text, .md Markdown, a folder gets the
    SKILL.md that coding agents load, and in CLAUDE.md, AGENTS.md and GEMINI.md a marked block is kept, with every
    other byte of the file as it is. All formats but .json hold the active skills only.

    Args:
        path: The file or folder.
        export_format: The format, where the path does not tell it.
        name: The name of the skill in SKILL.md; by default that of the folder.
        description: What the skills are for, in SKILL.md; by default their sections.
        skillbook: The skillbook; skills.db by default.
        yes: Replace a file that is there without asking.
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    chosen = format_of(Path(path)) if export_format is None else export_format
    file = written_file(Path(path), chosen)
    if file.is_dir():
        raise UsageError(f"{str(file)!r} is a folder, and the format {chosen!r} is one file; give its name")
    with opened(location) as book:
        if file.exists() and Path(location).exists() and file.samefile(location):
            raise UsageError(f"{path!r} is the skillbook itself; give another path")
        if file.exists() and chosen != "block":
            ask(f"the file {str(file)!r}, which is there already, would be replaced", assume_yes=yes)
        try:
            write_export(book, file, chosen, name=name, description=description)
        except MarkedBlockError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}; choose another path") from error
        written = len(book.skills(include_invalid=chosen == "json"))
    if as_json:
        print_json(
            {
                "command": "skillbook export",
                "skillbook": location,
                "path": str(file),
                "format": chosen,
                "skills": written,
            }
        )
    else:
        print_text(f"{file}: {counted(written, 'skill')} of {location} as {chosen}")
    return DONE
