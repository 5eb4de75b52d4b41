"""`ace skillbook merge`: merges several skillbooks into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, print_json, print_text
from ace.cli.errors import DONE
from ace.cli.options import Flag, JsonFlag
from ace.cli.skillbooks.intake import (
    FileReport,
    Intake,
    SourceBook,
    carry_decisions,
    join_known,
    print_reports,
    read_source_books,
    report_as_json,
    take_new,
    taken_ids,
)
from ace.cli.skillbooks.opened_book import open_or_start, save
from ace.skillbook import Skillbook, shown_location

__all__ = ["command"]


def command(
    *paths: Annotated[str, Parameter(required=True)],
    output: Annotated[str, Parameter(name=["--output", "-o"])],
    verbose: Annotated[bool, Flag] = False,
    as_json: JsonFlag = False,
) -> int:
    """Merge several skillbooks into one, as one version.

    Skills with the same section and text become one skill, with the higher counters and all sources and cases. Skills
    with the same id but different texts are all kept; the later ones get new ids. The merged files are not changed.

    For example:

        ace skillbook merge skills.json --output skills.db
        ace skillbook merge mine.db theirs.db --output team.db --verbose

    Args:
        paths: The skillbooks, in any format that `ace skillbook import` reads.
        output: The skillbook to write: a new one, or an existing one, which keeps all its skills.
        verbose: List every skill that was imported or skipped.
        as_json: Print one JSON object, which lists every skill.
    """
    sources = [source for path in paths if not _is_same(path, output) for source in read_source_books(path)]
    with open_or_start(output) as book:
        with book.deferred_commits():
            merged = [_merge(book, source) for source in sources]
            version = book.version
            is_new = book.store is None and not Path(output).exists()
            is_changed = any(intake.taken or joined for intake, joined in merged) or book.has_uncommitted_changes
            if is_new or is_changed:
                version = save(book, output, author="ace skillbook merge")
        reports = [
            FileReport(source.place, intake, taken_ids(book, intake), joined, source.notes)
            for source, (intake, joined) in zip(sources, merged, strict=True)
        ]
        skills = len(book)
    if as_json:
        files = [report_as_json(report) for report in reports]
        print_json(
            {
                "command": "skillbook merge",
                "output": shown_location(output),
                "version": version,
                "skills": skills,
                "files": files,
            }
        )
        return DONE
    print_reports(reports, verbose=verbose)
    print_text(f"{shown_location(output)} has {counted(skills, 'skill')} now")
    return DONE


def _merge(book: Skillbook, source: SourceBook) -> tuple[Intake, list[str]]:
    intake = take_new(book, source.book, with_invalid=True)
    carry_decisions(book, source.book, intake)
    return intake, join_known(book, intake)


def _is_same(path: str, output: str) -> bool:
    return Path(path).exists() and Path(output).exists() and Path(path).samefile(output)
