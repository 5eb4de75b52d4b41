"""What is installed, and what was learned from which session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ace.skillbook import Skillbook
from ace_openclaw.installing import ace_folder, read_settings, skillbook_path
from ace_openclaw.learned import LearnedTurn, LearnedTurns
from ace_openclaw.runner import LEARNED_FILE

__all__ = ["LearnedSession", "LearningStatus", "learning_status"]


@dataclass(frozen=True)
class LearnedSession:
    """A session that was learned from."""

    session_id: str
    session_key: str
    turns: int
    """How many of its turns were learned from."""
    skill_ids: tuple[str, ...]
    """The skills that they taught."""
    last_learned: str
    """When, as ISO time."""


@dataclass(frozen=True)
class LearningStatus:
    """How things stand."""

    installed: bool
    capture: bool
    """Whether the capture plugin is installed."""
    headline: str
    """The same as a sentence."""
    skills: int
    """How many skills the book has."""
    sessions: tuple[LearnedSession, ...]


def learning_status(state: Path) -> LearningStatus:
    """Look at the installation and at the notes.

    Args:
        state: The folder of OpenClaw.

    Raises:
        InstallError: The settings are broken.
    """
    settings = read_settings(state)
    sessions: tuple[LearnedSession, ...] = ()
    skills = 0
    if skillbook_path(state).exists():
        with Skillbook.open(skillbook_path(state)) as book:
            skills = len(book)
            sessions = tuple(_sessions(LearnedTurns(ace_folder(state) / LEARNED_FILE).turns(), book))
    capture = settings is not None and settings.entry is not None
    if settings is None:
        headline = "Not installed; run 'ace openclaw install'."
    else:
        plugin = " and the capture plugin" if capture else ""
        headline = f"Installed for {settings.workspace}{plugin}; {skills} skills."
    return LearningStatus(settings is not None, capture, headline, skills, sessions)


def _sessions(turns: list[LearnedTurn], book: Skillbook) -> list[LearnedSession]:
    by_session: dict[str, list[LearnedTurn]] = {}
    for turn in turns:
        by_session.setdefault(turn.session_id, []).append(turn)
    return [
        LearnedSession(
            session_id,
            own[0].session_key,
            len(own),
            tuple(dict.fromkeys(skill.id for turn in own for skill in book.source_filter(trace_id=turn.trace_id))),
            max(turn.at for turn in own),
        )
        for session_id, own in by_session.items()
    ]
