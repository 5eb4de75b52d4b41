"""What is installed, and what was learned from which session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ace.skillbook import ProgressRow, Skillbook
from ace_openclaw.home import databases, skillbook_path
from ace_openclaw.reading.database import session_keys
from ace_openclaw.runner import RUN_ID
from ace_openclaw.settings import read_settings

__all__ = ["LearnedSession", "LearningStatus", "learning_status"]


@dataclass(frozen=True)
class LearnedSession:
    """A session that was learned from."""

    session_id: str
    session_key: str
    """Its name in OpenClaw, as far as OpenClaw still has it."""
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
    """Look at the installation and at the skillbook.

    Args:
        state: The folder of OpenClaw.

    Raises:
        InstallError: The settings are broken.
        SkillbookError: The skillbook cannot be read.
    """
    settings = read_settings(state)
    sessions: tuple[LearnedSession, ...] = ()
    skills = 0
    if skillbook_path(state).exists():
        keys = {name: key for path in databases(state) for name, key in session_keys(path).items()}
        with Skillbook.open(skillbook_path(state)) as book:
            skills = len(book)
            sessions = tuple(_sessions(book, keys))
    capture = settings is not None and settings.entry is not None
    if settings is None:
        headline = "Not installed; run 'ace openclaw install'."
    else:
        plugin = " and the capture plugin" if capture else ""
        headline = f"Installed for {settings.workspace}{plugin}; {skills} skills."
    return LearningStatus(settings is not None, capture, headline, skills, sessions)


def _sessions(book: Skillbook, keys: Mapping[str, str]) -> list[LearnedSession]:
    by_session: dict[str, list[ProgressRow]] = {}
    for row in book.store.progress(RUN_ID) if book.store is not None else ():
        if row.version is not None:  # else it failed, and is tried again
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
