"""`ace skillbook merge`: makes one skillbook of several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import print_json, print_text
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag
from ace.cli.skillbooks.intake import Intake, carry_decisions, join_known, take_new, taken_ids
from ace.cli.skillbooks.intake_output import FileReport, print_reports, report_as_json
from ace.cli.skillbooks.opening import open_or_start, save
from ace.cli.skillbooks.source_files import SourceBook, read_source_books
from ace.cli.wording import counted
from ace.skillbook import Skillbook

__all__ = ["command"]


def command(*paths: str, output: Annotated[str, Parameter(name=["--output", "-o"])], as_json: JsonFlag = False) -> int:
    """Make one skillbook of several, as one version.

    A skill that several books have with the same text is there once, with the higher counters and all its sources.
    Skills of the same id and different texts all stay; the later one gets a new id.

    Args:
        paths: The skillbooks, in any format that `ace skillbook import` reads. They stay as they are.
        output: Where the skills go: a new skillbook, or one that is there and keeps every skill that it has.
        as_json: Print one JSON object.
    """
    if not paths:
        raise UsageError("give at least one skillbook to merge")
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
            {"command": "skillbook merge", "output": output, "version": version, "skills": skills, "files": files}
        )
        return DONE
    print_reports(reports)
    print_text(f"{output}: {counted(skills, 'skill')}")
    return DONE


def _merge(book: Skillbook, source: SourceBook) -> tuple[Intake, list[str]]:
    intake = take_new(book, source.book, with_invalid=True)
    carry_decisions(book, source.book, intake)
    return intake, join_known(book, intake)


def _is_same(path: str, output: str) -> bool:
    return Path(path).exists() and Path(output).exists() and Path(path).samefile(output)
