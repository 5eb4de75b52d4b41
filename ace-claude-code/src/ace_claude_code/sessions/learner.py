"""The detached learner: `python -m ace_claude_code.sessions.learner` processes the queue and exits."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from ace_claude_code.sessions.home import state_folder
from ace_claude_code.sessions.jobs import Job, learner_lock, note_failure, waiting_jobs
from ace_claude_code.sessions.settings import SessionSettings, read_settings

__all__ = ["main", "work_off"]


def work_off(state: Path) -> None:
    """Learn from the sessions in the queue, unless another process does. Each job is tried once.

    If the model cannot be reached, the rest of the queue waits for the next session that starts or ends.

    Args:
        state: The folder of the state.
    """
    tried: set[str] = set()
    # A process that adds a job while another one holds the lock relies on that one to read the queue again.
    while _left(state, tried):
        with learner_lock(state) as held:
            if not held:
                return
            while (jobs := _left(state, tried)) and (settings := read_settings(state)) is not None:
                tried.add(jobs[0].path)
                if not _do(jobs[0], state, settings):
                    return
            if read_settings(state) is None:
                return


def _left(state: Path, tried: set[str]) -> list[Job]:
    return [job for job in waiting_jobs(state) if job.path not in tried]


def _do(job: Job, state: Path, settings: SessionSettings) -> bool:
    """Learn from a session, and return whether the model can be used for the next one."""
    from ace.cli import CommandContext
    from ace.integrations import UsageError
    from ace.pipeline import CancellationToken
    from ace.protocols import LLMCallError
    from ace_claude_code.binary import ClaudeNotFoundError
    from ace_claude_code.sessions.learning import opened_learner

    token = CancellationToken()
    budget = settings.budget_usd
    try:
        with opened_learner(
            CommandContext("claude-code"), state, settings, cancel_token=token, budget_usd=budget
        ) as learner:
            learner.learn_job(job)
    except (UsageError, LLMCallError, ClaudeNotFoundError) as error:  # a wrong setting, no login, no binary
        problem = f"{job.transcript}: {error}"
        _log(problem)
        note_failure(job, problem, is_outage=True)
        return False
    except Exception as error:  # a job that fails must not block the others
        problem = f"{job.transcript}: {type(error).__name__}: {error}"
        _log(problem)
        note_failure(job, problem)
        return True
    report = learner.report
    _log(
        "; ".join(report.problems)
        or f"{job.transcript}: {report.turns_learned} turns learned, {report.turns_known} known"
    )
    if token.is_cancelled and token.reason == "max_cost":
        _log(f"the budget of {budget:g} USD for today is spent; the waiting sessions follow tomorrow")
    return not report.outage and not token.is_cancelled


def _log(text: str) -> None:
    """Write a line to standard error, which the hook redirects to a file."""
    sys.stderr.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text}\n")
    sys.stderr.flush()


def main() -> int:
    """Process the queue."""
    work_off(state_folder())
    return 0


if __name__ == "__main__":
    sys.exit(main())
