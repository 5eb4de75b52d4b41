"""Finds the sessions that Claude Code has stored for a project."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from ace.json_fields import text_in
from ace_claude_code.sessions.home import project_key, transcripts_folder

__all__ = ["key_of_transcript", "stored_sessions"]

_LINES_LOOKED_AT = 50


def stored_sessions(project: Path) -> list[Path]:
    """Return the transcripts of a project, the oldest first.

    Args:
        project: The folder of the project.
    """
    found = [path for folder in _folders_of(project) for path in folder.glob("*.jsonl")]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def key_of_transcript(transcript: Path, cwd: str) -> str:
    """Return the name of the project's folder of transcripts.

    Args:
        transcript: The file of a session; a copy of it may lie anywhere.
        cwd: The folder in which the session ran, as far as it tells it.
    """
    if transcript.absolute().parent.parent == transcripts_folder().absolute() or not cwd:
        return transcript.absolute().parent.name
    project = Path(cwd)
    return next((folder.name for folder in _folders_of(project)), project_key(project))


def _folders_of(project: Path) -> list[Path]:
    folders = [folder for folder in transcripts_folder().glob("*") if folder.is_dir()]
    own = [folder for folder in folders if folder.name == project_key(project)]
    # A long path is truncated and ends in a hash; then the sessions themselves tell where they ran.
    return own or [folder for folder in folders if _ran_in(folder, project)]


def _ran_in(folder: Path, project: Path) -> bool:
    first = next(iter(sorted(folder.glob("*.jsonl"))), None)
    if first is None:
        return False
    with first.open(encoding="utf-8", errors="replace") as file:
        for line in islice(file, _LINES_LOOKED_AT):
            try:
                record = json.loads(line)
            except ValueError:  # a broken line says nothing
                continue
            if isinstance(record, dict) and text_in(record, "cwd"):
                return text_in(record, "cwd") == str(project)
    return False
