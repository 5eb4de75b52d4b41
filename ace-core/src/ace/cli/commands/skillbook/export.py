"""`ace skillbook export`: exports the skills to another format."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ace._internal.atomic_file import replace_file
from ace._internal.managed_block import ManagedBlockError, write_managed_block
from ace.cli.console import counted, is_terminal, print_json, print_text, result_stream, visible
from ace.cli.errors import DONE, UsageError, check_is_path
from ace.cli.options import JsonFlag, SkillbookOption, YesFlag
from ace.cli.questions import ask
from ace.cli.skillbooks.described_history import check_version, newest_version
from ace.cli.skillbooks.opened_book import is_store, location_of, opened
from ace.skillbook import Skillbook, shown_location
from ace.skillbook.skill_folders import foreign_files, write_skill_folders

if TYPE_CHECKING:
    from ace.environments import Sample

__all__ = ["command"]

_ExportFormat = Literal["json", "playbook", "bullets", "markdown", "skill", "block", "samples"]

_BLOCK_FILES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md")
_BY_SUFFIX: dict[str, _ExportFormat] = {
    ".json": "json",
    ".txt": "playbook",
    ".md": "markdown",
    ".markdown": "markdown",
    ".jsonl": "samples",
    "": "skill",
}


def command(
    path: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    export_format: Annotated[_ExportFormat | None, Parameter(name="--format")] = None,
    at: int | None = None,
    skillbook: SkillbookOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Export the skills to another format.

    The path determines the format: .json is the whole skillbook, .txt is playbook text, .md is Markdown, and a folder
    such as .claude/skills receives skill folders after the Agent Skills specification: one for each section, with a
    description that quotes the tasks that need it. In CLAUDE.md, AGENTS.md and GEMINI.md, only a managed block is
    written; the rest of the file is not changed. Except for .json, an export contains only the skills that agents see.
    With -, the export is written to standard output, as JSON unless --format is given.

    The format bullets writes lines such as [Bullet #ID, helpful:5, harmful:0] text, which `ace skillbook import` reads.

    A .jsonl path (format samples) exports the cases of the skills as samples with their ground truth, for `ace eval`
    and `ace train`; score them with `--environment strict`.

    For example:

        ace skillbook export AGENTS.md
        ace skillbook export .claude/skills
        ace skillbook export - --format markdown | less
        ace skillbook export - --format markdown --at 18
        ace skillbook export cases.jsonl

    Args:
        path: The file or folder; - writes to standard output.
        export_format: The format, if the path does not determine it.
        at: Export this version instead of the newest one; `ace skillbook log` lists them.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    if path == "-":
        return _export_to_output(location, export_format or "json", at, as_json=as_json)
    check_is_path("PATH", path)
    chosen = _format_of(Path(path)) if export_format is None else export_format
    file = Path(path)
    if chosen == "skill" and file.exists() and not file.is_dir():
        raise UsageError(f"{str(file)!r} is a file, and the format 'skill' is a folder of skill folders; give its name")
    if chosen != "skill" and file.is_dir():
        raise UsageError(f"{str(file)!r} is a folder, and the format {chosen!r} is one file; give its name")
    with _opened_at(location, at) as book:
        if file.exists() and Path(location).exists() and file.samefile(location):
            raise UsageError(f"{path!r} is the skillbook itself; give another path")
        for replaced in _replaced_files(book, file, chosen):
            ask(f"the existing file {str(replaced)!r} will be replaced", assume_yes=yes)
        try:
            _write_export(book, file, chosen)
        except ManagedBlockError as error:
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


def _written(book: Skillbook, export_format: _ExportFormat) -> int:
    """Return the number of skills or samples in an export."""
    if export_format == "samples":
        from ace.evaluation import case_samples

        return len(case_samples(book))
    return len(book.skills(include_invalid=export_format == "json"))


@contextlib.contextmanager
def _opened_at(location: str, version: int | None) -> Iterator[Skillbook]:
    """Open a skillbook; with a version, yield a copy of it as it was then."""
    with opened(location) as book:
        if version is None:
            yield book
            return
        newest_version(book, location)  # tells of a skillbook without a history
        check_version(book, location, version)
        yield book.as_of(version)


def _export_to_output(location: str, export_format: _ExportFormat, at: int | None, *, as_json: bool) -> int:
    if as_json:
        raise UsageError("--json reports an export to a file; with - the export itself goes to standard output")
    with _opened_at(location, at) as book:
        text = _exported_text(book, export_format).rstrip("\n")
    print_text(visible(text) if is_terminal(result_stream()) else text)
    return DONE


def _format_of(path: Path) -> _ExportFormat:
    """Return the format that a path determines.

    Args:
        path: The file or folder.

    Raises:
        UsageError: The path does not determine a format.

    Example:
        >>> [_format_of(Path(name)) for name in ("skills.json", "AGENTS.md", "notes.md", "skills/maths")]
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


def _exported_text(book: Skillbook, export_format: _ExportFormat) -> str:
    """Return the skills as a text.

    Args:
        export_format: The format; one that consists of a single text.

    Raises:
        UsageError: The format is part of a file or folder.
    """
    match export_format:
        case "json":
            return book.dumps()
        case "playbook":
            return book.as_playbook()
        case "bullets":
            return book.as_bullets()
        case "markdown":
            return f"{book.as_markdown()}\n"
        case "samples":
            return _samples_text(book)
        case "skill" | "block":
            raise UsageError(f"the format {export_format!r} needs a file or folder; give its path instead of -")


def _replaced_files(book: Skillbook, path: Path, export_format: _ExportFormat) -> list[Path]:
    """Return the files whose contents are lost, of those that ace has not written as an export."""
    if export_format == "skill":
        return foreign_files(path, book.skills())
    return [path] if path.exists() and export_format != "block" else []


def _write_export(book: Skillbook, file: Path, export_format: _ExportFormat) -> None:
    """Write the skills.

    Args:
        file: The file or folder.
        export_format: The format.

    Raises:
        ManagedBlockError: The marks in the file do not make one block.
        OSError: It cannot be written.
    """
    match export_format:
        case "json" | "playbook" | "bullets" | "markdown" | "samples":
            replace_file(file, _exported_text(book, export_format).encode("utf-8"))
        case "block":
            write_managed_block(file, book.as_markdown())
        case "skill":
            write_skill_folders(file, book.skills(include_invalid=True))


def _samples_text(book: Skillbook) -> str:
    """Return the cases as lines of JSON that `ace eval` and `ace train` read."""
    from ace.evaluation import case_samples

    return "".join(f"{json.dumps(_sample_dict(sample), ensure_ascii=False)}\n" for sample in case_samples(book))


def _sample_dict(sample: Sample) -> dict[str, object]:
    fields = {"id": sample.id, "question": sample.question, "context": sample.context}
    known = {name: value for name, value in fields.items() if value}
    return {**known, "ground_truth": sample.ground_truth, **sample.metadata}
