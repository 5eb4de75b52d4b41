"""One run from the command line: progress, signals, limits and the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ace.cli.console import note
from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES
from ace.cli.learning.interruption import run_interruptibly
from ace.cli.learning.opened_skillbook import is_store, saved_elsewhere
from ace.cli.learning.progress import progress_shown
from ace.cli.learning.run_counts import RunCounts
from ace.pipeline import CancellationToken
from ace.protocols.observers import observing
from ace.runners.not_written import SkillbookNotWrittenError

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["ending", "how_to_go_on", "run_learning"]


def run_learning(
    run: Callable[[CancellationToken], object],
    book: Skillbook,
    path: Path,
    counts: RunCounts,
    *,
    total: int,
    noun: str,
    quiet: bool,
) -> str:
    """Run, show the progress, and end softly at the first signal and at once at the second.

    Args:
        run: Starts the run with a token, and returns when it is over.
        book: The skillbook that learns.
        path: Where it is open.
        counts: Counts what happens.
        total: How many inputs there are, over all epochs.
        noun: What one input is called.
        quiet: Whether to show no progress.

    Returns:
        What stopped the run: `cancelled` (a signal), `max_cost`, `fail_fast`, `early_stopping`,
        `skillbook_not_written`, or nothing.
    """
    token = CancellationToken()
    with progress_shown(total, noun, quiet=quiet) as progress, observing(counts), observing(progress):

        def stop_softly() -> None:
            token.cancel()
            note("ace: stopping as soon as what is under way is done; Ctrl-C again stops at once")

        def stop_at_once() -> None:
            progress.close()
            if not is_store(path):
                book.save_to_file(path, merge=True)
            note(f"ace: stopped at once; {how_to_go_on(path)}")

        try:
            run_interruptibly(lambda: run(token), on_first=stop_softly, on_second=stop_at_once)
        except SkillbookNotWrittenError as error:
            progress.close()
            note(f"ace: {error.reason}")
            if not is_store(path):
                note(f"ace: what was learned is in {str(saved_elsewhere(book, path))!r}, until you move it")
            return "skillbook_not_written"
    return token.reason


def how_to_go_on(path: Path) -> str:
    """Return what to type after a run was broken off.

    Args:
        path: The skillbook.
    """
    if is_store(path):
        return "what was learned is kept; the same command with --resume goes on"
    return f"what was learned is kept; a run into {path.name!r} cannot go on, only start again (one into a .db can)"


def ending(stopped_by: str, path: Path, *, has_failures: bool) -> int:
    """Say how to go on, where there is something left, and return the exit code.

    Args:
        stopped_by: What `run_learning` returned.
        path: The skillbook.
        has_failures: Whether something was not learned from.
    """
    if stopped_by == "early_stopping":
        note("ace: ended early, since validation found nothing better")
        return WITH_FAILURES if has_failures else DONE
    if stopped_by:
        note(f"ace: {_REASONS[stopped_by]}; {how_to_go_on(path)}")
    if stopped_by == "cancelled":
        return INTERRUPTED
    return WITH_FAILURES if stopped_by or has_failures else DONE


_REASONS = {
    "cancelled": "stopped",
    "max_cost": "stopped, since the limit of --max-cost was reached",
    "fail_fast": "stopped at the first trace that failed",
    "skillbook_not_written": "stopped, since the skillbook cannot be written",
}
