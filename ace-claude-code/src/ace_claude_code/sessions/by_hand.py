"""Learns when the user says so, instead of at the end of a session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ace_claude_code.sessions.home import state_folder, transcripts_folder
from ace_claude_code.sessions.jobs import Job, failed_jobs, learner_lock, note_failure, remove_job, waiting_jobs
from ace_claude_code.sessions.learning import LearningReport, learn_session
from ace_claude_code.sessions.settings import SessionSettings
from ace_claude_code.sessions.stored import stored_sessions

__all__ = ["NothingToLearnError", "learn_by_hand"]


class NothingToLearnError(ValueError):
    """There is no session to learn from."""


def learn_by_hand(settings: SessionSettings, transcripts: Sequence[Path], project: Path | None) -> LearningReport:
    """Learn from transcripts, from all stored sessions of a project, or from what is waiting.

    A learner that is at work is waited for.

    Args:
        settings: Who learns.
        transcripts: Files of stored sessions.
        project: The project all of whose sessions are taken; None takes none.

    Returns:
        What came of it.

    Raises:
        NothingToLearnError: The project has no stored session.
    """
    state = state_folder()
    paths = [*(path.absolute() for path in transcripts)]
    if project is not None:
        stored = stored_sessions(transcripts_folder(), project)
        if not stored:
            raise NothingToLearnError(
                f"Claude Code has stored no session of {str(project)!r} in {transcripts_folder()}; "
                "run it there first, or name the project with --project"
            )
        paths += stored
    report = LearningReport()
    with learner_lock(state, wait=True):
        for path in paths:
            learn_session(path, state, settings, report)
        if not paths:
            for job in [*waiting_jobs(state), *failed_jobs(state)]:
                _do(job, state, settings, report)
    return report


def _do(job: Job, state: Path, settings: SessionSettings, report: LearningReport) -> None:
    problems = len(report.problems)
    learn_session(Path(job.transcript), state, settings, report)
    if len(report.problems) > problems:
        note_failure(job, report.problems[-1])
    else:
        remove_job(job)
