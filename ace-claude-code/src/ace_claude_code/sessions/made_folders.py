"""The folders that an installation created; they are removed when they are empty again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from ace.atomic_file import replace_file

__all__ = ["MADE_FOLDERS_FILE", "note_made_folders", "read_made_folders", "remove_empty"]

MADE_FOLDERS_FILE = "made-folders.json"
"""Kept as long as any of our files, even without an installation, because kept skills may be removed later."""


def note_made_folders(state: Path, folders: Iterable[Path]) -> None:
    """Add folders to the record."""
    noted = read_made_folders(state)
    wanted = list(dict.fromkeys([*noted, *map(str, folders)]))
    if wanted != noted:
        replace_file(state / MADE_FOLDERS_FILE, f"{json.dumps(wanted)}\n".encode())


def read_made_folders(state: Path) -> list[str]:
    """Return the recorded folders.

    Args:
        state: The folder of the state.
    """
    try:
        noted = json.loads((state / MADE_FOLDERS_FILE).read_bytes())
    except (FileNotFoundError, ValueError):  # empty folders are not removed then, which is harmless
        return []
    return [str(folder) for folder in noted] if isinstance(noted, list) else []


def remove_empty(folders: Iterable[str]) -> None:
    """Remove the folders that are empty."""
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # it contains other files of the user, or no longer exists
            Path(folder).rmdir()
