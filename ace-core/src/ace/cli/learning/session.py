"""One run from the command line: progress, signals, limits and the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ace.cli.console import last_note, note
from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES
from ace.cli.learning.interruption import run_interruptibly
from ace.cli.learning.opened_skillbook import saved_elsewhere
from ace.cli.learning.run_counts import RunCounts
from ace.cli.learning.run_progress import run_progress_shown
from ace.cli.learning.skillbook_place import SkillbookPlace
from ace.cli.wording import counted
from ace.pipeline import CancellationToken
from ace.protocols.observers import observing
from ace.runners.run_session import SkillbookNotWrittenError

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["ending", "how_to_go_on", "run_learning"]


def run_learning(
    run: Callable[[CancellationToken], object],
    book: Skillbook,
    place: SkillbookPlace,
    counts: RunCounts,
    *,
    total: int,
    noun: str,
    quiet: bool,
    way_on: str,
) -> str:
    """Run, show the progress, and end softly at the first signal and at once at the second.

    Args:
        run: Starts the run with a token, and returns when it is over.
        book: The skillbook that learns.
        place: Where it is open.
        counts: Counts what happens.
        total: How many inputs there are, over all epochs.
        noun: What one input is called.
        quiet: Whether to show no progress.
        way_on: What `how_to_go_on` returned.

    Returns:
        What stopped the run: `cancelled` (a signal), `max_cost`, `fail_fast`, `authentication`, `server_failures`,
        `early_stopping`, `skillbook_not_written`, or nothing.
    """
    token = CancellationToken()
    with run_progress_shown(total, noun, quiet=quiet) as progress, observing(counts), observing(progress):

        def stop_softly() -> None:
            token.cancel()
            note("ace: stopping after the current step; press Ctrl-C again to stop immediately")

        def stop_at_once() -> None:
            progress.restore()
            if not place.keeps_history:
                book.save_to_file(place.location, merge=True)
            last_note(f"ace: stopped immediately; {way_on}")

        try:
            run_interruptibly(lambda: run(token), on_first=stop_softly, on_second=stop_at_once)
        except SkillbookNotWrittenError as error:
            progress.close()
            note(f"ace: {error.reason}")
            if place.file is not None and not (place.keeps_history and place.file.exists()):
                note(f"ace: a copy of what was learned is in {str(saved_elsewhere(book))!r}, until you move it")
            return "skillbook_not_written"
    return token.reason


def how_to_go_on(place: SkillbookPlace, *, can_resume: bool, is_dry_run: bool, stopped_by: str = "") -> str:
    """Return what to do after a run was stopped, or samples failed.

    Args:
        place: The skillbook.
        can_resume: Whether the run can be resumed.
        is_dry_run: Whether nothing was to be kept.
        stopped_by: What `run_learning` returned.
    """
    if is_dry_run:
        return "this was a dry run, and nothing was written"
    if place.file is not None and stopped_by == "skillbook_not_written":
        if not place.keeps_history:
            return f"learn into the copy, or move it to {place.name!r}"
        if not place.file.exists():
            return f"learn into the copy, or put {place.name!r} back and continue with --resume"
    if can_resume:
        return "what was learned is kept; the same command with --resume continues the run"
    return f"what was learned is kept; a run into {place.name!r} cannot be resumed (one into a .db file can)"


def ending(stopped_by: str, way_on: str, *, noun: str, failed: int, has_problems: bool) -> int:
    """Say how to continue, where there is something left, and return the exit code.

    Args:
        stopped_by: What `run_learning` returned.
        way_on: What `how_to_go_on` returned.
        noun: What one input is called.
        failed: How many inputs failed in the run.
        has_problems: Whether there were inputs that could not be read.
    """
    has_failures = failed > 0 or has_problems
    if stopped_by == "early_stopping":
        note("ace: ended early, because validation found no improvement")
        return WITH_FAILURES if has_failures else DONE
    if stopped_by:
        note(f"ace: {_REASONS[stopped_by]}; {way_on}")
    elif failed:
        note(f"ace: {counted(failed, noun)} failed; {way_on}")
    if stopped_by == "cancelled":
        return INTERRUPTED
    return WITH_FAILURES if stopped_by or has_failures else DONE


_REASONS = {
    "cancelled": "stopped",
    "max_cost": "stopped, because the limit of --max-cost was reached",
    "fail_fast": "stopped at the first input that failed",
    "authentication": "stopped, because the server of the model refused the key; check the key",
    "server_failures": "stopped, because the model could not be reached for several inputs in a row",
    "skillbook_not_written": "stopped, because the skillbook cannot be written",
}
