"""The state of the installation, and what was learned from which session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ace.integrations import counted
from ace.runners import Spend, spend_of_days
from ace.skillbook import ProgressRow, Skillbook
from ace_openclaw.automatic import problems_of_last_run
from ace_openclaw.home import ace_folder, databases, skillbook_path
from ace_openclaw.reading.database import session_keys
from ace_openclaw.runner import RUN_ID
from ace_openclaw.settings import read_settings
from ace_openclaw.turn_queue import queued_turns

__all__ = ["LearnedSession", "LearningStatus", "learning_status"]


@dataclass(frozen=True)
class LearnedSession:
    """A session with learned turns."""

    session_id: str
    session_key: str
    """Its name in OpenClaw; empty if OpenClaw no longer has the session."""
    turns: int
    """The number of its learned turns."""
    skill_ids: tuple[str, ...]
    """The skills that were learned from them."""
    last_learned: str
    """The time of the last learned turn, as ISO time."""


@dataclass(frozen=True)
class LearningStatus:
    """The state of the installation, the queue and the skillbook."""

    installed: bool
    capture: bool
    """Whether each turn is also written to a file that is kept."""
    headline: str
    """A summary in one line."""
    skills: int
    """The number of skills in the skillbook."""
    sessions: tuple[LearnedSession, ...]
    waiting: int = 0
    """The number of turns in the queue of automatic learning."""
    failed: int = 0
    """The number of queued turns that failed too often and are no longer tried."""
    budget_usd: float | None = None
    """The daily limit on the cost of automatic learning, in US dollars; None if it is turned off."""
    spent_today: Spend = field(default_factory=Spend)
    spent_in_30_days: Spend = field(default_factory=Spend)
    problems: tuple[str, ...] = ()
    """The problems of the last automatic run."""


def learning_status(state: Path) -> LearningStatus:
    """Return the state of the installation, the queue and the skillbook.

    Args:
        state: The folder of OpenClaw.

    Raises:
        InstallError: The settings are broken.
        SkillbookError: The skillbook cannot be read.
    """
    settings = read_settings(state)
    queue = queued_turns(state)  # before the sessions, so that a turn that is just being finished is in one of them
    sessions: tuple[LearnedSession, ...] = ()
    skills = 0
    if skillbook_path(state).exists():
        keys = {name: key for path in databases(state) for name, key in session_keys(path).items()}
        with Skillbook.open(skillbook_path(state)) as book:
            skills = len(book)
            sessions = tuple(_sessions(book, keys))
    failed = sum(turn.is_given_up for turn in queue)
    if settings is None:
        headline = "Not installed; run 'ace openclaw install'."
    else:
        plugin = " and the capture plugin" if settings.capture else ""
        headline = f"Installed for {settings.workspace}{plugin}; {counted(skills, 'skill')}."
        if settings.budget_usd is not None:
            who = settings.model or "the model of your settings"
            again = f", {failed} failed ('ace openclaw learn' tries them again)" if failed else ""
            headline += f" Learning is automatic, by {who}; waiting: {counted(len(queue) - failed, 'turn')}{again}."
    return LearningStatus(
        installed=settings is not None,
        capture=settings is not None and settings.capture,
        headline=headline,
        skills=skills,
        sessions=sessions,
        waiting=len(queue) - failed,
        failed=failed,
        budget_usd=None if settings is None else settings.budget_usd,
        spent_today=spend_of_days(ace_folder(state)),
        spent_in_30_days=spend_of_days(ace_folder(state), 30),
        problems=tuple(problems_of_last_run(state)),
    )


def _sessions(book: Skillbook, keys: Mapping[str, str]) -> list[LearnedSession]:
    by_session: dict[str, list[ProgressRow]] = {}
    for row in book.store.progress(RUN_ID) if book.store is not None else ():
        if row.version is not None:  # otherwise it failed and is tried again
            by_session.setdefault(row.key.sample.rpartition("#")[0], []).append(row)
    return [
        LearnedSession(
            session_id,
            keys.get(session_id, ""),
            len(own),
            tuple(dict.fromkeys(skill.id for row in own for skill in book.source_filter(trace_id=row.key.sample))),
            max(row.at for row in own),
        )
        for session_id, own in by_session.items()
    ]
