"""`ace skillbook import`: imports skills from other files and frameworks."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, print_json, print_text
from ace.cli.errors import DONE
from ace.cli.options import Flag, JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import print_undo, undo_command
from ace.cli.skillbooks.intake import FileReport, print_reports, read_source_books, report_as_json, take_new, taken_ids
from ace.cli.skillbooks.opened_book import location_of, open_or_start, save
from ace.skillbook import shown_location

__all__ = ["command"]


def command(
    *paths: Annotated[str, Parameter(required=True)],
    skillbook: SkillbookOption = None,
    verbose: Annotated[bool, Flag] = False,
    as_json: JsonFlag = False,
) -> int:
    """Import skills from other files and frameworks, as one version.

    Reads skillbooks of this and other frameworks (JSON), stores, playbook text, Markdown lists, folders with SKILL.md,
    and the managed block in a file such as AGENTS.md. Existing skills are not changed: a skill with the same section
    and text is skipped, and a skill whose id is taken gets a new id. If one of the files cannot be read, nothing is
    imported.

    For example:

        ace skillbook import playbook.txt notes.md
        ace skillbook import ~/.claude/skills --skillbook team.db --verbose

    Args:
        paths: The files and folders.
        skillbook: The skillbook to import into; it is created if it does not exist. [env: ACE_SKILLBOOK]
            [default: skills.db]
        verbose: List every skill that was imported or skipped.
        as_json: Print one JSON object, which lists every skill.
    """
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
        print_json(
            {"command": "skillbook import", "skillbook": shown_location(location), "version": version, "files": files}
        )
        return DONE
    print_reports(reports, verbose=verbose)
    number = sum(len(intake.taken) for intake in intakes)
    print_text(f"{counted(number, 'skill')} imported into {shown_location(location)}")
    if number:
        print_undo(location, version, undo_command(location, version))
    return DONE
