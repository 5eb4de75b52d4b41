"""`ace skillbook import`: takes skills in from other files and frameworks."""

from __future__ import annotations

from ace.cli.console import print_json, print_text
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.intake import take_new, taken_ids
from ace.cli.skillbooks.intake_output import FileReport, print_reports, report_as_json
from ace.cli.skillbooks.opening import location_of, open_or_start, save
from ace.cli.skillbooks.source_files import read_source_books
from ace.cli.wording import counted

__all__ = ["command"]


def command(*paths: str, skillbook: SkillbookOption = None, as_json: JsonFlag = False) -> int:
    """Take skills in from other files and frameworks, as one version.

    Reads skillbooks of this and other frameworks (JSON), stores, playbook text, Markdown lists, folders with SKILL.md
    and the block of ace in a file such as AGENTS.md. No skill of the skillbook is changed: one whose text it has
    already is skipped, one whose id is taken gets a new id. If one of the files cannot be read, nothing is taken.

    Args:
        paths: The files and folders.
        skillbook: The skillbook that takes them in; skills.db by default. It is made if it is not there.
        as_json: Print one JSON object.
    """
    if not paths:
        raise UsageError("give at least one file to take skills from")
    location = location_of(skillbook)
    sources = [source for path in paths for source in read_source_books(path)]
    with open_or_start(location) as book:
        with book.deferred_commits():
            intakes = [take_new(book, source.book, with_invalid=False) for source in sources]
            version = book.version
            if any(intake.taken for intake in intakes):
                version = save(book, location, author="ace skillbook import")
        reports = [
            FileReport(source.place, intake, taken_ids(book, intake), notes=source.notes)
            for source, intake in zip(sources, intakes, strict=True)
        ]
    if as_json:
        files = [report_as_json(report) for report in reports]
        print_json({"command": "skillbook import", "skillbook": location, "version": version, "files": files})
        return DONE
    print_reports(reports)
    print_text(f"{location}: {counted(sum(len(intake.taken) for intake in intakes), 'skill')} taken in")
    return DONE
