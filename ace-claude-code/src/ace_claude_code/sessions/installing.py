"""Installs the plugin in the user's folder of Claude Code, and removes it again completely."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ace.integrations import JobQueue, MadeFolders, replace_file
from ace_claude_code.sessions.home import plugin_data_folder, plugin_folder, state_folder
from ace_claude_code.sessions.plugin_files import is_foreign_plugin, plugin_files
from ace_claude_code.sessions.settings import SessionSettings, SettingsError, read_settings, write_settings

__all__ = ["ForeignPluginError", "earlier_settings", "install", "uninstall"]

_MADE_FOLDERS_FILE = "made-folders.json"
"""Kept as long as any of our files, even without an installation, because kept skills may be removed later."""


class ForeignPluginError(Exception):
    """The folder of our plugin contains files that were not written by ACE."""


def install(settings: SessionSettings) -> Path:
    """Write the plugin and the settings. An older installation is replaced; what was learned is kept.

    No file of the user is changed, because Claude Code loads all plugins in this folder.

    Args:
        settings: The settings of the learner. The projects of an earlier installation are added to them.

    Returns:
        The folder of the plugin.

    Raises:
        ForeignPluginError: A plugin of this name that is not ours is in its place.
    """
    plugin, state = plugin_folder(), state_folder()
    _check_ours(plugin)
    before = earlier_settings()
    data = plugin_data_folder()
    missing = [path for path in (data, *plugin.parents, *data.parents) if not path.exists()]
    if before is not None and before.projects and settings.projects:
        settings = replace(settings, projects=tuple(dict.fromkeys([*before.projects, *settings.projects])))
    JobQueue(state).make_folder()
    MadeFolders(state / _MADE_FOLDERS_FILE).note(missing)
    write_settings(state, settings)
    for name, text in plugin_files().items():
        replace_file(plugin / name, text.encode())
    return plugin


def uninstall(*, keep_skills: bool = False, on_wait: Callable[[], None] | None = None) -> bool:
    """Remove the plugin, and everything that was queued, recorded and learned.

    Waits for a running learner to finish.

    Args:
        keep_skills: Whether to keep the skillbooks.
        on_wait: Called before waiting.

    Returns:
        Whether there was anything to remove.

    Raises:
        ForeignPluginError: A plugin of this name that is not ours is in its place.
    """
    plugin, state = plugin_folder(), state_folder()
    _check_ours(plugin)
    if not plugin.exists() and not state.exists():
        return False
    made = MadeFolders(state / _MADE_FOLDERS_FILE)
    folders = made.read()
    if plugin.exists():
        _remove_plugin(plugin)
    if state.exists():
        _clear(state, keep_skills=keep_skills, on_wait=on_wait)
        made.remove_empty(folders)
        if not keep_skills:
            shutil.rmtree(state)
    made.remove_empty(folders)
    return True


def _remove_plugin(plugin: Path) -> None:
    """Remove the plugin. The file by which it is recognised as ours is removed last."""
    for path in plugin.iterdir():
        if path.name == "hooks":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.rmtree(plugin)


def _clear(state: Path, *, keep_skills: bool, on_wait: Callable[[], None] | None) -> None:
    # Without settings and queue, a learner at work ends after its session.
    (state / "settings.json").unlink(missing_ok=True)
    for name in ("queue", "open", "spend"):
        shutil.rmtree(state / name, ignore_errors=True)
    with JobQueue(state).lock(wait=True, on_wait=on_wait):
        if not keep_skills and (state / "projects").exists():
            shutil.rmtree(state / "projects")
        for path in state.iterdir():
            if path.is_file() and path.name != _MADE_FOLDERS_FILE:
                path.unlink()


def _check_ours(plugin: Path) -> None:
    if is_foreign_plugin(plugin):
        raise ForeignPluginError(f"{plugin} exists and was not installed by ACE; move it away first")


def earlier_settings() -> SessionSettings | None:
    """Return the settings of the current installation; None without an installation, or if they are broken."""
    try:
        return read_settings(state_folder())
    except SettingsError:  # installing repairs what is broken, and uninstalling removes it
        return None
