"""The detached learner: `python -m ace_claude_code.sessions.learner` processes the queue and exits."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from ace.integrations import Job, JobQueue
from ace_claude_code.sessions.home import state_folder
from ace_claude_code.sessions.settings import SessionSettings, read_settings

__all__ = ["main", "work_off"]


def work_off(state: Path) -> None:
    """Learn from the sessions in the queue, unless another process does. Each job is tried once.

    If the model cannot be reached, the rest of the queue waits for the next session that starts or ends.

    Args:
        state: The folder of the state.
    """
    queue = JobQueue(state)

    def learn(job: Job) -> bool:
        settings = read_settings(state)
        return settings is not None and _do(job, queue, settings)

    queue.work_off(learn, is_wanted=lambda: read_settings(state) is not None)


def _do(job: Job, queue: JobQueue, settings: SessionSettings) -> bool:
    """Learn from a session, and return whether the model can be used for the next one."""
    from ace.cli import CommandContext
    from ace.integrations import UsageError, counted
    from ace.pipeline import CancellationToken
    from ace.protocols import LLMCallError
    from ace_claude_code.binary import ClaudeNotFoundError
    from ace_claude_code.sessions.learning import opened_learner

    token = CancellationToken()
    transcript = job.field("transcript")
    budget = settings.budget_usd
    try:
        with opened_learner(
            CommandContext("claude-code"), queue.folder, settings, cancel_token=token, budget_usd=budget
        ) as learner:
            learner.learn_job(job)
    except (UsageError, LLMCallError, ClaudeNotFoundError) as error:  # a wrong setting, no login, no binary
        problem = f"{transcript}: {error}"
        _log(problem)
        queue.note_failure(job, problem, is_outage=True)
        return False
    except Exception as error:  # a job that fails must not block the others
        problem = f"{transcript}: {type(error).__name__}: {error}"
        _log(problem)
        queue.note_failure(job, problem)
        return True
    report = learner.report
    learned = f"{counted(report.turns_learned, 'turn')} learned, {report.turns_known} known already"
    _log("; ".join(report.problems) or f"{transcript}: {learned}")
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
