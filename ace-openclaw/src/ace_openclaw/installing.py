"""Sets up learning in the folder of OpenClaw, and removes it completely.

Both may be killed at any time, so the settings, which say what to remove, are written first and removed last.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ace.integrations import file_lock, remove_empty_folders
from ace_openclaw.capture import add_plugin, planned_capture, plugin_folder, remove_plugin
from ace_openclaw.home import ace_folder, learner_lock_path, skillbook_path
from ace_openclaw.settings import Settings, read_settings, settings_path, write_settings
from ace_openclaw.workspace import remove_skills

__all__ = ["install", "uninstall"]


def install(state: Path, settings: Settings) -> list[str]:
    """Write the settings and, if requested, the plugin. What was learned before is kept.

    Args:
        state: The folder of OpenClaw.
        settings: The user's choices. Capturing of turns that an earlier installation started is continued.

    Returns:
        Notes for the user.

    Raises:
        InstallError: The configuration cannot be changed, or a plugin of this name that is not ours is in its place.
        OSError: A file cannot be written.
    """
    before = read_settings(state)
    if before is not None:
        capture = settings.capture or before.capture
        settings = replace(settings, capture=capture, entry=before.entry, made_config=before.made_config)
    has_plugin = settings.capture or settings.budget_usd is not None
    wanted = [ace_folder(state), Path(settings.workspace), *([plugin_folder(state).parent] if has_plugin else [])]
    missing = [str(path) for folder in wanted for path in (folder, *folder.parents) if not path.exists()]
    earlier = before.made_folders if before is not None else ()
    settings = replace(settings, made_folders=tuple(dict.fromkeys([*earlier, *missing])))
    changed_config = None
    if has_plugin:
        settings, changed_config = planned_capture(state, settings)
    elif settings.entry is not None:
        write_settings(state, settings)
        remove_plugin(state, settings)
        settings = replace(settings, entry=None, made_config=False)
    write_settings(state, settings)
    return add_plugin(state, changed_config) if has_plugin else []


def uninstall(state: Path, *, keep_skills: bool = False, on_wait: Callable[[], None] | None = None) -> bool:
    """Remove everything that was installed, recorded and learned, with or without an installation.

    Waits for a running learner to finish.

    Args:
        state: The folder of OpenClaw.
        keep_skills: Whether to keep the skillbook.
        on_wait: Called before waiting.

    Returns:
        Whether there was anything to remove.

    Raises:
        ManagedBlockError: The marks in AGENTS.md do not enclose exactly one block; nothing is removed.
        InstallError: The configuration cannot be read; only the skills in the workspace were removed.
    """
    folder = ace_folder(state)
    if not folder.is_dir():
        return False
    with file_lock(learner_lock_path(state), on_wait=on_wait):
        settings = read_settings(state)
        if settings is not None:
            remove_skills(Path(settings.workspace))
            if settings.entry is not None:
                remove_plugin(state, settings)
        _clear(state, keep_skills=keep_skills)
        made = settings.made_folders if settings is not None else ()
        remove_empty_folders(made)
        settings_path(state).unlink(missing_ok=True)
        learner_lock_path(state).unlink()
    remove_empty_folders([str(folder), *made])
    return True


def _clear(state: Path, *, keep_skills: bool) -> None:
    """Remove the contents of our folder except the settings, the held lock and, if it is to be kept, the skillbook."""
    left = {settings_path(state), learner_lock_path(state)}
    book = skillbook_path(state).name
    for path in ace_folder(state).iterdir():
        if path in left or (keep_skills and path.name.startswith(book)):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
