"""`ace skillbook forget`: deletes what models said in runs, which a store keeps so that a run can be resumed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import counted, note, print_json, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.options import Flag, JsonFlag, SkillbookOption, YesFlag
from ace.cli.questions import ask
from ace.cli.skillbooks.opened_book import SkillbookPlace, location_of, opened
from ace.runners.run_record import is_in_use, recorded_runs
from ace.skillbook import Skillbook, shown_location
from ace.skillbook.store import ForgetsAnswers, SkillbookStore

__all__ = ["command"]


def command(
    *,
    answers: Annotated[bool, Flag] = False,
    run: Annotated[list[str] | None, Parameter(negative="", show_default=False)] = None,
    skillbook: SkillbookOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Delete the recorded answers of models.

    A .db skillbook records what models answered in a run, so that a resumed run does not pay for it again. These texts
    can quote the traces. They are deleted and overwritten in all files of the skillbook, including the backups of
    older formats; the skills and their history stay. If an unfinished run is resumed afterwards, its models are asked
    again.

    For example:

        ace skillbook forget --answers
        ace skillbook forget --answers --run monday --yes

    Args:
        answers: Delete the recorded answers of models.
        run: Only the answers of this run; repeat it for several. By default those of all runs, and the answers to
            validation samples (NAME.db.answers.jsonl).
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    if not answers:
        raise UsageError("nothing to delete was named; --answers deletes the recorded answers of models")
    location = location_of(skillbook)
    place = SkillbookPlace(location)
    with opened(location) as book:
        recorded = {} if book.store is None else _recorded(book.store)
        chosen = _chosen(book, recorded, run)
        file = place.validation_answers if run is None else None
        has_file = file is not None and file.exists()
        count = sum(recorded.get(id, 0) for id in chosen)
        if chosen or has_file:
            _confirm(place, count, chosen, file if has_file else None, assume_yes=yes)
        deleted = _forget(book, chosen) if chosen else 0
    if file is not None and has_file:
        file.unlink(missing_ok=True)
    left = _unfinished_log(place)
    if as_json:
        print_json(
            {
                "command": "skillbook forget",
                "skillbook": shown_location(location),
                "answers": deleted,
                "runs": chosen,
                "validation_answers": has_file,
                "is_complete": left is None,
            }
        )
    else:
        print_text(f"deleted {counted(deleted, 'answer')} of {counted(len(chosen), 'run')} from {place}")
    if left is not None:
        note(
            f"ace: another process has the skillbook open, so texts may be left in {str(left)!r}; "
            "run the command again when it has ended"
        )
        return WITH_FAILURES
    return DONE


def _recorded(store: SkillbookStore) -> Counter[str]:
    """Return how many answers are recorded for each run."""
    return Counter(str(json.loads(key)[0]) for key, _ in store.recorded_answers())


def _chosen(book: Skillbook, recorded: Counter[str] | dict[str, int], runs: list[str] | None) -> list[str]:
    """Return the runs whose answers are deleted."""
    if runs is None:
        chosen = sorted(recorded)
    else:
        known = {*recorded, *(() if book.store is None else recorded_runs(book.store))}
        unknown = [run for run in runs if run not in known]
        if unknown:
            raise UsageError(f"no such run: {unknown[0]!r}; without --run, the answers of all runs are deleted")
        chosen = list(dict.fromkeys(runs))
    in_use = [id for id in chosen if is_in_use(book, id)]
    if in_use:
        raise UsageError(f"another process is working on the run {in_use[0]!r}; wait until it has ended")
    return chosen


def _confirm(place: SkillbookPlace, count: int, runs: list[str], file: Path | None, *, assume_yes: bool) -> None:
    also = "" if file is None else f", and the file {file.name!r}"
    ask(
        f"{counted(count, 'answer')} of {counted(len(runs), 'run')} in {place}{also} will be deleted",
        assume_yes=assume_yes,
    )


def _forget(book: Skillbook, runs: list[str]) -> int:
    store: object = book.store  # mypy takes no object for both protocols
    if not isinstance(store, ForgetsAnswers):
        raise UsageError("the store of this skillbook cannot delete the answers of models")
    return store.forget_answers(*runs)


def _unfinished_log(place: SkillbookPlace) -> Path | None:
    """Return the log of SQLite if it holds anything; the last process that closes the store deletes it."""
    if place.file is None:
        return None
    log = place.file.with_name(f"{place.file.name}-wal")
    return log if log.exists() and log.stat().st_size else None
