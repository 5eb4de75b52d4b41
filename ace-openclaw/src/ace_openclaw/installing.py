"""Sets up learning in the folder of OpenClaw, and removes it without a trace."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path

from ace.durable_file import replace_file
from ace_openclaw.config_entry import PLUGIN_ID, InsertedEntry, inserted, missing_in_allow_list, removed
from ace_openclaw.home import captured_file
from ace_openclaw.json5_members import Json5Error
from ace_openclaw.json_fields import list_in, mapping_in, number_in, text_in
from ace_openclaw.workspace import remove_skills

__all__ = ["InstallError", "Settings", "ace_folder", "install", "read_settings", "skillbook_path", "uninstall"]

_SCHEMA = 1
_PLUGIN_FILES = ("index.js", "openclaw.plugin.json", "package.json")
_NEW_CONFIG = "{}\n"


class InstallError(ValueError):
    """Something is in the way of an installation."""


@dataclass(frozen=True)
class Settings:
    """What the user chose at the installation, and what it left."""

    workspace: str
    """The folder in which the skills are left."""
    model: str = ""
    """The model that learns."""
    api_base: str = ""
    """The address of an own server."""
    made_folders: tuple[str, ...] = ()
    """The folders that the installation had to make; they go when they are empty again."""
    entry: InsertedEntry | None = None
    """What was put into `openclaw.json` for the capture plugin."""
    made_config: bool = False
    """Whether there was no `openclaw.json`."""


def ace_folder(state: Path) -> Path:
    """Return the folder with all that is learned.

    Args:
        state: The folder of OpenClaw.
    """
    return state / "ace"


def skillbook_path(state: Path) -> Path:
    """Return the file of the skillbook.

    Args:
        state: The folder of OpenClaw.
    """
    return ace_folder(state) / "skillbook.db"


def install(state: Path, settings: Settings, *, capture: bool) -> list[str]:
    """Write the settings, and the capture plugin if it is wanted. What was learned before stays.

    Args:
        state: The folder of OpenClaw.
        settings: What the user chose.
        capture: Whether OpenClaw hands over every finished turn.

    Returns:
        What the user has to know.

    Raises:
        InstallError: The configuration cannot be changed, or there is a plugin of somebody else.
        OSError: A file cannot be written.
    """
    before = read_settings(state)
    if before is not None:
        settings = replace(
            settings, made_folders=before.made_folders, entry=before.entry, made_config=before.made_config
        )
    else:
        wanted = [ace_folder(state), *([_plugin_folder(state).parent] if capture else [])]
        missing = [each for folder in wanted for each in (folder, *folder.parents) if not each.exists()]
        settings = replace(settings, made_folders=tuple(str(each) for each in dict.fromkeys(missing)))
    notes: list[str] = []
    if capture:
        settings, notes = _with_capture(state, settings)
    text = json.dumps({"schema": _SCHEMA, **asdict(settings)}, indent=2, ensure_ascii=False)
    replace_file(ace_folder(state) / "settings.json", f"{text}\n".encode())
    return notes


def uninstall(state: Path, *, keep_skills: bool = False) -> bool:
    """Remove all that was installed, noted and learned, also what was learned without an installation.

    Args:
        state: The folder of OpenClaw.
        keep_skills: Whether the skillbook stays.

    Returns:
        Whether anything was there.

    Raises:
        MarkedBlockError: The marks in AGENTS.md do not make one block; nothing is removed.
        InstallError: The configuration cannot be read; nothing else is removed.
    """
    settings = read_settings(state)
    folder = ace_folder(state)
    if not folder.is_dir():
        return False
    if settings is not None:
        remove_skills(Path(settings.workspace))
        if settings.entry is not None:
            _remove_entry(state / "openclaw.json", settings.entry, made_config=settings.made_config)
            shutil.rmtree(_plugin_folder(state), ignore_errors=True)
    kept = skillbook_path(state).name if keep_skills else None
    for path in sorted(folder.iterdir()):
        if kept is None or not path.name.startswith(kept):
            path.unlink()
    made_folders = settings.made_folders if settings is not None else ()
    for name in (str(folder), *sorted(made_folders, key=len, reverse=True)):
        with contextlib.suppress(OSError):  # the user keeps something else in it by now
            Path(name).rmdir()
    return True


def read_settings(state: Path) -> Settings | None:
    """Return the settings; None if nothing is installed.

    Args:
        state: The folder of OpenClaw.

    Raises:
        InstallError: The file is broken.
    """
    path = ace_folder(state) / "settings.json"
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InstallError(f"{path} is no JSON ({error}); delete it and run 'ace openclaw install' again") from None
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
        raise InstallError(f"{path} is not of this release; delete it and run 'ace openclaw install' again")
    entry = mapping_in(data, "entry")
    return Settings(
        workspace=text_in(data, "workspace"),
        model=text_in(data, "model"),
        api_base=text_in(data, "api_base"),
        made_folders=tuple(str(folder) for folder in list_in(data, "made_folders")),
        entry=InsertedEntry(text_in(entry, "text"), int(number_in(entry, "made") or 0)) if entry else None,
        made_config=data.get("made_config") is True,
    )


def _plugin_folder(state: Path) -> Path:
    return state / "extensions" / PLUGIN_ID


def _with_capture(state: Path, settings: Settings) -> tuple[Settings, list[str]]:
    config = state / "openclaw.json"
    folder = _plugin_folder(state)
    if settings.entry is None:
        if folder.exists():
            raise InstallError(f"{folder} is there, and is not ours; move it away first")
        made = not config.exists()
        original = _NEW_CONFIG if made else config.read_bytes().decode("utf-8")
        try:
            changed, entry = inserted(original, _entry(state))
        except ValueError as error:
            raise InstallError(f"{config} cannot be changed: {error}") from error
        replace_file(config, changed.encode())
        settings = replace(settings, entry=entry, made_config=made)
    for name in _PLUGIN_FILES:
        replace_file(folder / name, files("ace_openclaw").joinpath("capture_plugin", name).read_bytes())
    if missing_in_allow_list(config.read_bytes().decode("utf-8")):
        return settings, [f"{config} allows certain plugins only; add {PLUGIN_ID!r} to plugins.allow"]
    return settings, []


def _entry(state: Path) -> dict[str, object]:
    return {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"file": str(captured_file(state.absolute()))},
    }


def _remove_entry(config: Path, entry: InsertedEntry, *, made_config: bool) -> None:
    if not config.exists():
        return
    try:
        rest = removed(config.read_bytes().decode("utf-8"), entry)
    except Json5Error as error:
        raise InstallError(f"{config} cannot be changed: {error}; mend it first") from error
    if made_config and rest == _NEW_CONFIG:
        config.unlink()
    else:
        replace_file(config, rest.encode())
