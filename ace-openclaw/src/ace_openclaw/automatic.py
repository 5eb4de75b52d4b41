"""The learner that the plugin of OpenClaw starts after each turn: `python -m ace_openclaw.automatic FOLDER`.

The plugin writes a finished turn to a file of the queue and then starts a learner, which outlives OpenClaw. There are
two locks: one learner holds the lock for learning, and at most one other holds the lock for waiting. Invariant: the
waiting learner acquires the first lock before it releases the second, and reads the queue after that. So a learner that
finds both locks taken may end: its turn is in the queue already, and the waiting learner will read it. Turns that are
not learned, because the daily budget is spent or the model cannot be reached, stay in the queue for the next learner.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from ace.integrations import counted, file_lock, replace_file
from ace_openclaw.home import ace_folder, learner_lock_path
from ace_openclaw.settings import InstallError, Settings, read_settings

__all__ = ["main", "problems_of_last_run"]

_PROBLEMS = "problems.txt"
_LOG_SIZE = 1_000_000


def main(arguments: list[str]) -> int:
    """Learn from the turns in the queue, unless another learner will.

    Args:
        arguments: The folder of OpenClaw.

    Returns:
        The exit code: 1 if something could not be learned.
    """
    [folder] = arguments
    state = Path(folder)
    if not ace_folder(state).is_dir():  # it was uninstalled while OpenClaw was running
        return 0
    with ExitStack() as place:
        if not place.enter_context(file_lock(ace_folder(state) / "waiting.lock", wait=False)):
            return 0
        with file_lock(learner_lock_path(state)):
            place.close()
            return _learn_unattended(state)


def problems_of_last_run(state: Path) -> list[str]:
    """Return the problems of the last automatic learner.

    Args:
        state: The folder of OpenClaw.
    """
    try:
        return (ace_folder(state) / _PROBLEMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _learn_unattended(state: Path) -> int:
    """Learn while the lock is held, and record problems for `ace openclaw status`."""
    from ace.integrations import UsageError
    from ace.protocols import LLMError
    from ace.skillbook import SkillbookError

    _shorten_log(state)
    try:
        settings = read_settings(state)
        if settings is None or settings.budget_usd is None:  # uninstalled, or installed anew without --learn
            return 0
        problems = _learn(state, settings, settings.budget_usd)
    except (InstallError, LLMError, OSError, SkillbookError, UsageError) as error:
        problems = [str(error)]
    except Exception as error:
        _note_problems(state, [f"{type(error).__name__}: {error}"])
        raise
    _note_problems(state, problems)
    return 1 if problems else 0


def _learn(state: Path, settings: Settings, budget_usd: float) -> list[str]:
    """Learn from the queue within the budget, and return the problems."""
    from ace.cli import CommandContext
    from ace.pipeline import CancellationToken
    from ace.protocols import LLMCallError
    from ace.runners import spend_of_days
    from ace_openclaw.learning import learn_while_locked
    from ace_openclaw.turn_queue import TurnQueue

    queue = TurnQueue(state, with_given_up=False)
    spent = f"the budget of {budget_usd:g} USD for today is spent; the waiting turns follow tomorrow"
    left = budget_usd - spend_of_days(ace_folder(state)).cost_usd
    if not queue.sessions:
        queue.settle()
        return []
    if left <= 0:
        return [spent]
    os.chdir(ace_folder(state))  # ignore the settings of the project in which OpenClaw was started
    context = CommandContext("openclaw")
    chosen = context.settings(model=settings.model or None, api_base=settings.api_base or None)
    token = CancellationToken()
    with context.model(chosen) as client:
        try:
            report = learn_while_locked(
                state,
                queue.sessions,
                client=client,
                workspace=settings.workspace,
                max_cost=left,
                needs_price=False,
                allow=chosen.learning.allow,
                provenance=chosen.learning.provenance,
                unproven=chosen.learning.unproven,
                cancel_token=token,
                on_sample_end=queue.note,
            )
        except LLMCallError:
            # Raised after the run, because the model refused several turns in a row. Count their attempts; otherwise
            # they are tried first each time.
            queue.settle()
            raise
    queue.settle()
    _log(f"{counted(report.turns_learned, 'turn')} learned, {report.turns_known} known already")
    return [*report.problems, *([spent] if token.reason == "max_cost" else [])]


def _note_problems(state: Path, problems: list[str]) -> None:
    for problem in problems:
        _log(problem)
    lines = "".join(f"{' '.join(problem.split())}\n" for problem in problems)
    replace_file(ace_folder(state) / _PROBLEMS, lines.encode())


def _log(text: str) -> None:
    """Write a line to standard error, which the plugin redirects to a file."""
    sys.stderr.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text}\n")
    sys.stderr.flush()


def _shorten_log(state: Path) -> None:
    """Empty the log if it has become long. Only the learner that holds the lock writes to it."""
    log = ace_folder(state) / "learner.log"
    if log.exists() and log.stat().st_size > _LOG_SIZE:
        os.truncate(log, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
