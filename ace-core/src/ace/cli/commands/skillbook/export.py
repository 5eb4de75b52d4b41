"""`ace skillbook export`: exports the skills to another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import is_terminal, print_json, print_text, result_stream, visible
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption, YesFlag
from ace.cli.skillbooks.confirmation import ask
from ace.cli.skillbooks.export_formats import ExportFormat, exported_text, format_of, write_export, written_file
from ace.cli.skillbooks.opening import location_of, opened
from ace.cli.wording import counted
from ace.marked_block import MarkedBlockError
from ace.skillbook import Skillbook, shown_location

__all__ = ["command"]


def command(
    path: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    export_format: Annotated[ExportFormat | None, Parameter(name="--format")] = None,
    name: str | None = None,
    description: str | None = None,
    skillbook: SkillbookOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Export the skills to another format.

    The path determines the format: .json is the whole skillbook, .txt is playbook text, .md is Markdown, and a folder
    receives a SKILL.md for coding agents. In CLAUDE.md, AGENTS.md and GEMINI.md, only a marked block is written; the
    rest of the file is not changed. Except for .json, an export contains only the skills that agents see. With -, the
    export is written to standard output, as JSON unless --format is given.

    A .jsonl path (format samples) exports the cases of the skills as samples with their ground truth, for `ace eval`
    and `ace train`; score them with `--environment strict`.

    For example:

        ace skillbook export AGENTS.md
        ace skillbook export skills/maths --name maths
        ace skillbook export - --format markdown | less
        ace skillbook export cases.jsonl

    Args:
        path: The file or folder; - writes to standard output.
        export_format: The format, if the path does not determine it.
        name: The name of the skill in SKILL.md. [default: the name of the folder]
        description: The description of the skill in SKILL.md. [default: the sections of the skills]
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    if path == "-":
        return _export_to_output(location, export_format or "json", as_json=as_json)
    chosen = format_of(Path(path)) if export_format is None else export_format
    file = written_file(Path(path), chosen)
    if file.is_dir():
        raise UsageError(f"{str(file)!r} is a folder, and the format {chosen!r} is one file; give its name")
    with opened(location) as book:
        if file.exists() and Path(location).exists() and file.samefile(location):
            raise UsageError(f"{path!r} is the skillbook itself; give another path")
        if file.exists() and chosen != "block":
            ask(f"the existing file {str(file)!r} will be replaced", assume_yes=yes)
        try:
            write_export(book, file, chosen, name=name, description=description)
        except MarkedBlockError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}; choose another path") from error
        written = _written(book, chosen)
    if as_json:
        print_json(
            {
                "command": "skillbook export",
                "skillbook": shown_location(location),
                "path": str(file),
                "format": chosen,
                "samples" if chosen == "samples" else "skills": written,
            }
        )
    else:
        noun = "sample" if chosen == "samples" else "skill"
        print_text(f"exported {counted(written, noun)} of {shown_location(location)} to {file} as {chosen}")
    return DONE


def _written(book: Skillbook, export_format: ExportFormat) -> int:
    """Return how many skills, or samples, an export holds."""
    if export_format == "samples":
        from ace.evaluation import case_samples

        return len(case_samples(book))
    return len(book.skills(include_invalid=export_format == "json"))


def _export_to_output(location: str, export_format: ExportFormat, *, as_json: bool) -> int:
    if as_json:
        raise UsageError("--json reports an export to a file; with - the export itself goes to standard output")
    with opened(location) as book:
        text = exported_text(book, export_format).rstrip("\n")
    print_text(visible(text) if is_terminal(result_stream()) else text)
    return DONE
