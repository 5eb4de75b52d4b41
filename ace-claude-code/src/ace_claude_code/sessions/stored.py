"""Finds the sessions that Claude Code has stored for a project."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from ace_claude_code.json_fields import text_in
from ace_claude_code.sessions.home import project_key

__all__ = ["stored_sessions"]

_LINES_LOOKED_AT = 50


def stored_sessions(transcripts: Path, project: Path) -> list[Path]:
    """Return the transcripts of a project, the oldest first.

    Args:
        transcripts: The folder with one folder to a project.
        project: The folder of the project.
    """
    key = project_key(project)
    folders = [folder for folder in transcripts.glob("*") if folder.is_dir()]
    own = [folder for folder in folders if folder.name == key]
    # A long path is cut, and a hash stands at its end; then the sessions themselves tell where they ran.
    own = own or [folder for folder in folders if _ran_in(folder, project)]
    found = [path for folder in own for path in folder.glob("*.jsonl")]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


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
