"""Reports what was imported from files, and what was skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ace.cli.console import note, print_table, print_text, visible
from ace.cli.skillbooks.intake import Intake

__all__ = ["FileReport", "print_reports", "report_as_json"]


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of the skills of one file."""

    place: str
    """The file."""
    intake: Intake
    """What was taken and left."""
    ids: Mapping[str, str]
    """The ids in the skillbook by those in the file."""
    joined: Sequence[str] = ()
    """The skills that were there already and learned something from the file."""
    notes: Sequence[str] = ()
    """What the file has beyond skills."""


def report_as_json(report: FileReport) -> dict[str, object]:
    """Return a report as JSON values.

    Args:
        report: The report.
    """
    return {
        "path": report.place,
        "taken": [
            {"id": report.ids.get(skill.id), "id_in_file": skill.id, "section": skill.section, "content": skill.content}
            for skill in report.intake.taken
        ],
        "joined": list(report.joined),
        "skipped": [
            {"id_in_file": each.skill.id, "content": each.skill.content, "reason": each.reason}
            for each in report.intake.left
        ],
        "notes": list(report.notes),
    }


def print_reports(reports: Sequence[FileReport], *, verbose: bool) -> None:
    """Print how many skills each file gave, and what else it contains.

    Args:
        reports: The reports.
        verbose: Whether to list every skill that was imported or skipped.
    """
    print_table(
        ["file", "imported", "updated", "skipped"],
        [
            [each.place, str(len(each.intake.taken)), str(len(each.joined)), str(len(each.intake.left))]
            for each in reports
        ],
    )
    if verbose:
        _print_skills(reports)
    for report in reports:
        for text in report.notes:
            note(visible(f"{report.place}: {text}"))


def _print_skills(reports: Sequence[FileReport]) -> None:
    taken = [
        [report.ids.get(skill.id, "-"), skill.section, skill.content, f"{report.place}: {skill.id}"]
        for report in reports
        for skill in report.intake.taken
    ]
    if taken:
        print_text("")
        print_table(["imported", "section", "content", "from"], taken)
    skipped = [
        [each.skill.id, report.place, each.reason, each.skill.content]
        for report in reports
        for each in report.intake.left
    ]
    if skipped:
        print_text("")
        print_table(["skipped", "file", "why", "content"], skipped)
