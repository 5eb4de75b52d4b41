"""`ace skillbook log`: the versions of a store."""

from __future__ import annotations

from ace._internal.json_fields import text_in
from ace.cli.console import counted, print_json, print_table, shown_time
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import change_counts, newest_version, place_of
from ace.cli.skillbooks.opened_book import location_of, opened
from ace.skillbook.events import event_dict
from ace.skillbook.history import HistoryEntry
from ace.skillbook.locations import shown_location

__all__ = ["command"]


def command(*, limit: int = 20, skillbook: SkillbookOption = None, as_json: JsonFlag = False) -> int:
    """List the versions of a skillbook, newest first.

    For example:

        ace skillbook log
        ace skillbook log --limit 0 --json

    Args:
        limit: The number of versions to list; 0 lists all.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print every change as one JSON object.
    """
    if limit < 0:
        raise UsageError(f"--limit must be a number of versions of at least 0, got {limit}")
    location = location_of(skillbook)
    with opened(location) as book:
        newest = newest_version(book, location)
        entries = book.history()[::-1]
    older = max(len(entries) - limit, 0) if limit else 0
    entries = entries[: len(entries) - older]
    if as_json:
        versions = [_as_json(entry) for entry in entries]
        print_json(
            {"command": "skillbook log", "skillbook": shown_location(location), "version": newest, "versions": versions}
        )
        return DONE
    print_table(
        ["version", "time (UTC)", "by", "sample", "changes"],
        [_row(entry) for entry in entries],
        title=f"{shown_location(location)} at version {newest}"
        + (f" ({counted(older, 'older version')} not shown)" if older else ""),
    )
    return DONE


def _row(entry: HistoryEntry) -> list[str]:
    sample = "-" if entry.key is None else f"{place_of(entry.key.sample)} (epoch {entry.key.epoch})"
    changes = change_counts(entry.events)
    if entry.skipped:
        reasons = dict.fromkeys(text_in(skipped, "reason") for skipped in entry.skipped)
        changes += f", {len(entry.skipped)} skipped ({'; '.join(filter(None, reasons))})"
    return [str(entry.version), shown_time(entry.at), entry.author or "-", sample, changes]


def _as_json(entry: HistoryEntry) -> dict[str, object]:
    return {
        "version": entry.version,
        "at": entry.at,
        "author": entry.author,
        "sample": None if entry.key is None else entry.key._asdict(),
        "changes": [event_dict(event) for event in entry.events],
        "skipped": list(entry.skipped),
    }
