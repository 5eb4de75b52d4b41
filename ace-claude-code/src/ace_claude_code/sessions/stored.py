"""Finds the sessions that Claude Code has stored for a project."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from ace.integrations import text_in
from ace_claude_code.sessions.home import project_key, repository_of, transcripts_folder

__all__ = ["key_of_project", "key_of_transcript", "stored_sessions"]

_LINES_LOOKED_AT = 50


def stored_sessions(project: Path) -> list[Path]:
    """Return the transcripts of the repository of a folder, oldest first.

    Args:
        project: The folder. Outside a repository, only its own sessions are returned.
    """
    root = repository_of(project)
    key = project_key(root)
    folders = [path for path in transcripts_folder().glob("*") if path.is_dir()]
    found = [path for folder in folders if _belongs(folder, root, key) for path in folder.glob("*.jsonl")]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def key_of_project(cwd: Path) -> str:
    """Return the name under which the skills for a folder are stored, which is that of its repository.

    Args:
        cwd: The folder in which a session starts.
    """
    return project_key(repository_of(cwd))


def key_of_transcript(transcript: Path, cwd: str) -> str:
    """Return the name under which the skills of a session are stored.

    Args:
        transcript: The file of a session; a copy of it may be anywhere.
        cwd: The folder in which the session ran; empty if it is unknown.
    """
    return key_of_project(Path(cwd)) if cwd else transcript.absolute().parent.name


def _belongs(folder: Path, root: Path, key: str) -> bool:
    """Return whether a folder of transcripts belongs to a repository, a folder in it or one of its worktrees."""
    ran_in = _ran_in(folder)
    return folder.name == key if ran_in is None else repository_of(Path(ran_in)) == root


def _ran_in(folder: Path) -> str | None:
    """Return where the sessions in a folder of transcripts ran; None if the first lines of one do not contain it."""
    first = next(iter(sorted(folder.glob("*.jsonl"))), None)
    if first is None:
        return None
    with first.open(encoding="utf-8", errors="replace") as file:
        for line in islice(file, _LINES_LOOKED_AT):
            try:
                record = json.loads(line)
            except ValueError:  # a damaged line
                continue
            if isinstance(record, dict) and text_in(record, "cwd"):
                return text_in(record, "cwd")
    return None
