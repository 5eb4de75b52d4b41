"""The folders that an installation had to make; they go when they are empty again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from ace.durable_file import replace_file

__all__ = ["MADE_FOLDERS_FILE", "note_made_folders", "read_made_folders", "remove_empty"]

MADE_FOLDERS_FILE = "made-folders.json"
"""It stays as long as anything of ours does, also without an installation: kept skills are removed some day, too."""


def note_made_folders(state: Path, folders: Iterable[Path]) -> None:
    """Note folders beside those that were noted before.

    Args:
        state: The folder of the state.
        folders: The folders.
    """
    noted = read_made_folders(state)
    wanted = list(dict.fromkeys([*noted, *map(str, folders)]))
    if wanted != noted:
        replace_file(state / MADE_FOLDERS_FILE, f"{json.dumps(wanted)}\n".encode())


def read_made_folders(state: Path) -> list[str]:
    """Return the folders that were noted.

    Args:
        state: The folder of the state.
    """
    try:
        noted = json.loads((state / MADE_FOLDERS_FILE).read_bytes())
    except (FileNotFoundError, ValueError):  # then empty folders stay, which is harmless
        return []
    return [str(folder) for folder in noted] if isinstance(noted, list) else []


def remove_empty(folders: Iterable[str]) -> None:
    """Remove those of the folders that are empty.

    Args:
        folders: The folders.
    """
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # the user keeps something else in it by now, or it has gone
            Path(folder).rmdir()
