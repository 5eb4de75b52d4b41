"""Installs our plugin in the folder of OpenClaw, and removes it.

The plugin captures finished turns in a file, hands them to the automatic learner, or both.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from ace.integrations import (
    JsonTextError,
    folder_lock,
    insert_member,
    real_path,
    remove_member,
    replace_file,
    value_at,
    write_durably,
)
from ace_openclaw.home import captured_file, queue_folder
from ace_openclaw.settings import InstallError, Settings

__all__ = ["PLUGIN_ID", "add_plugin", "planned_capture", "plugin_folder", "remove_plugin"]

PLUGIN_ID = "ace-capture"
_PATH = ("plugins", "entries", PLUGIN_ID)
_FILES = ("index.js", "openclaw.plugin.json", "package.json")
_NEW_CONFIG = "{}\n"


def plugin_folder(state: Path) -> Path:
    """Return the folder of our plugin.

    Args:
        state: The folder of OpenClaw.
    """
    return state / "extensions" / PLUGIN_ID


def planned_capture(state: Path, settings: Settings) -> tuple[Settings, bytes | None]:
    """Return the settings and the configuration with the plugin's entry; None if the configuration already has it.

    Nothing is written here: the settings must be written before the configuration, so that the remains of an
    interrupted installation can be found.

    Args:
        state: The folder of OpenClaw.
        settings: The current settings.

    Raises:
        InstallError: The configuration cannot be changed, or a plugin of this name that is not ours is in its place.
    """
    config = _config(state)
    if settings.entry is None and plugin_folder(state).exists():
        raise InstallError(f"{plugin_folder(state)} exists and was not installed by ACE; move it away first")
    made = not config.exists()
    original = _NEW_CONFIG if made else config.read_bytes().decode("utf-8")
    try:
        if settings.entry is not None and value_at(original, _PATH) is not None:
            made = settings.made_config
            if settings.entry.value == _entry(state, settings):
                return settings, None
            original = remove_member(original, _PATH, settings.entry)
        changed, entry = insert_member(original, _PATH, _entry(state, settings))
    except ValueError as error:
        raise InstallError(f"{config} cannot be changed: {error}") from error
    return replace(settings, entry=entry, made_config=made), changed.encode()


def add_plugin(state: Path, changed_config: bytes | None) -> list[str]:
    """Write the files of the plugin, then the configuration with which OpenClaw loads it.

    Args:
        state: The folder of OpenClaw.
        changed_config: The new configuration; None does not change it.

    Returns:
        Notes for the user.

    Raises:
        OSError: A file cannot be written.
    """
    for name in _FILES:
        data = files("ace_openclaw").joinpath("capture_plugin", name).read_bytes()
        replace_file(plugin_folder(state) / name, data)
    config = _config(state)
    if changed_config is not None:
        replace_file(config, changed_config)
    if _misses_in_allow_list(config.read_bytes().decode("utf-8")):
        return [f"{config} allows certain plugins only; add {PLUGIN_ID!r} to plugins.allow"]
    return []


def remove_plugin(state: Path, settings: Settings) -> None:
    """Remove the entry and the files of the plugin, if they exist.

    Args:
        state: The folder of OpenClaw.
        settings: The settings that the installation wrote.

    Raises:
        InstallError: The configuration cannot be read; nothing is removed.
    """
    config = _config(state)
    with folder_lock(config):
        if settings.entry is not None and config.exists():
            original = config.read_bytes().decode("utf-8")
            try:
                rest = remove_member(original, _PATH, settings.entry)
            except JsonTextError as error:
                raise InstallError(f"{config} cannot be changed: {error}; correct it first") from error
            if settings.made_config and rest == _NEW_CONFIG:
                config.unlink()
            elif rest != original:
                write_durably(config, rest.encode())
    if plugin_folder(state).exists():
        shutil.rmtree(plugin_folder(state))


def _misses_in_allow_list(config: str) -> bool:
    """Return whether the configuration has a list of allowed plugins that does not contain ours."""
    allowed = value_at(config, ("plugins", "allow"))
    return allowed is not None and PLUGIN_ID not in allowed


def _config(state: Path) -> Path:
    return real_path(state / "openclaw.json")  # which users may keep elsewhere, behind a link


def _entry(state: Path, settings: Settings) -> dict[str, object]:
    state = state.absolute()
    config: dict[str, object] = {}
    if settings.capture:
        config["file"] = str(captured_file(state))
    if settings.budget_usd is not None:
        config["queue"] = str(queue_folder(state))
        # -E and -P: neither a variable nor the working directory changes which modules are loaded.
        config["learner"] = [sys.executable, "-E", "-P", "-m", "ace_openclaw.automatic", str(state)]
    return {"enabled": True, "hooks": {"allowConversationAccess": True}, "config": config}
