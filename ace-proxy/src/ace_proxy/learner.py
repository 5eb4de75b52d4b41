"""The detached learner: `python -m ace_proxy.learner` learns from the runs in the queue in the current folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ace.cli import CommandContext
from ace.cli import main as ace
from ace.integrations import DONE, Job, JobQueue, note, observing
from ace.providers import price_of_model
from ace.runners import SpendLedger, spend_of_days

__all__ = ["LearnerSettings", "main", "queue_runs"]

_MODULE: Final = "ace_proxy.learner"
_UNUSABLE: Final = 2
"""The exit code of `ace learn` if a setting is wrong or the model cannot be called, which concerns all runs."""


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """How to learn from a run."""

    folder: str
    """The folder in which `ace learn` runs, whose settings it reads."""
    skillbook: str
    model: str = ""
    """The model; empty if the settings name it."""
    api_base: str = ""
    budget: str = "1.0"
    """The daily limit on the cost, in US dollars."""


def queue_runs(queue: JobQueue, files: Sequence[Path], settings: LearnerSettings) -> None:
    """Queue runs, and start a learner that outlives this process.

    Args:
        files: The files of the runs.
        settings: How to learn from them.

    Raises:
        OSError: The queue cannot be written, or no process can be started.
    """
    for file in files:
        queue.add({"run": str(file), **asdict(settings)})
    with queue.lock() as is_free:
        pass
    if is_free:  # otherwise a learner is at work, and reads the queue again before it ends
        queue.start_learner(_MODULE)


def main() -> int:
    """Process the queue in the current folder."""
    queue = JobQueue(Path.cwd())
    queue.work_off(lambda job: _learn(queue, job))
    return 0


def _learn(queue: JobQueue, job: Job) -> bool:
    """Learn from a run, and return whether to try the next one."""
    run = job.field("run")
    if not Path(run).exists():  # the user has deleted it
        queue.remove(job)
        return True
    left = float(job.field("budget")) - spend_of_days(queue.folder).cost_usd
    if left <= 0:
        _log(f"the budget of {job.field('budget')} USD for today is spent; the waiting runs follow tomorrow")
        return False
    os.chdir(job.field("folder"))
    command = _command(job, left)
    with observing(SpendLedger(queue.folder)):
        code = ace(command)
    _log(f"{run}: ace learn, exit code {code}")
    if code == DONE:
        queue.remove(job)
    else:
        queue.note_failure(job, f"{run}: ace learn ended with exit code {code}", is_outage=code == _UNUSABLE)
    return code != _UNUSABLE


def _command(job: Job, left: float) -> list[str]:
    """Return what follows `ace`."""
    named = {name: job.field(name) for name in ("skillbook", "model", "api_base") if job.field(name)}
    options = [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", value)]
    model = CommandContext("proxy").settings(**named).model
    has_price = model is None or price_of_model(model) is not None  # without a model, it is one of this machine
    return ["learn", job.field("run"), "--yes", *options, *(["--max-cost", f"{left:.12f}"] if has_price else [])]


def _log(text: str) -> None:
    note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}")


if __name__ == "__main__":
    sys.exit(main())
