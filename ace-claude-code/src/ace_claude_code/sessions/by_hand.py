"""Learns on request of the user, instead of at the end of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ace.pipeline import CancellationToken
from ace_claude_code.sessions.detached import start_learner
from ace_claude_code.sessions.home import state_folder, transcripts_folder
from ace_claude_code.sessions.jobs import LEARNER_AT_WORK, Job, failed_jobs, learner_lock, waiting_jobs
from ace_claude_code.sessions.learning import LearningReport, SessionLearner
from ace_claude_code.sessions.stored import stored_sessions

__all__ = ["NothingToLearnError", "learn_by_hand"]


class NothingToLearnError(ValueError):
    """No session to learn from was found."""


def learn_by_hand(
    learner: SessionLearner,
    transcripts: Sequence[Path],
    project: Path | None,
    *,
    cancel_token: CancellationToken,
    tell: Callable[[str], None],
) -> LearningReport:
    """Learn from transcripts, from all stored sessions of a project, or from the queued sessions.

    Waits for a running learner to finish.

    Args:
        learner: The learner to use.
        transcripts: Files of stored sessions.
        project: The project whose stored sessions are all learned, if any.
        cancel_token: The token of the learner, which stops it; the remaining turns are learned the next time.
        tell: Called with messages for the user during the run.

    Raises:
        NothingToLearnError: The project has no stored session.
        LLMAuthenticationError: The model that learns requires a key or a login.
        ClaudeNotFoundError: The model is one of Claude Code, and its binary was not found.
    """
    stored = [] if project is None else _stored(project)
    state = state_folder()
    with learner_lock(state, wait=True, on_wait=lambda: tell(LEARNER_AT_WORK)):
        queued = [] if transcripts or stored else [*waiting_jobs(state), *failed_jobs(state)]
        sessions: list[Path | Job] = [*(path.absolute() for path in transcripts), *stored, *queued]
        for number, session in enumerate(sessions, 1):
            if cancel_token.is_cancelled:
                break
            before = learner.report.turns_learned
            if isinstance(session, Job):
                learner.learn_job(session)
            else:
                learner.learn(session, may_be_open=session in stored)
            if learner.report.turns_learned > before:
                learned = learner.report.turns_learned - before
                tell(f"session {number} of {len(sessions)}: {learned} turns learned")
    # Sessions that ended while the lock was held did not start a learner.
    if not cancel_token.is_cancelled and any(job.attempts == 0 for job in waiting_jobs(state)):
        start_learner(state)
    return learner.report


def _stored(project: Path) -> list[Path]:
    stored = stored_sessions(project)
    if not stored:
        raise NothingToLearnError(
            f"Claude Code has stored no session of {str(project)!r} in {transcripts_folder()}; "
            "run it there first, or name the project with --project"
        )
    return stored
