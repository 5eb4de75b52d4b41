"""The settings that the user chose at the installation, and a record of what it changed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ace.integrations import InsertedMember, Record, list_in, mapping_in, number_in, replace_file, text_in
from ace_openclaw.home import ace_folder, make_ace_folder

__all__ = ["DEFAULT_BUDGET_USD", "InstallError", "Settings", "read_settings", "settings_path", "write_settings"]

_SCHEMA = 1
DEFAULT_BUDGET_USD = 1.0
"""In US dollars per day."""


class InstallError(ValueError):
    """OpenClaw's files or our own are in a state that prevents the installation."""


@dataclass(frozen=True)
class Settings:
    """The settings that the user chose at the installation, and a record of what it changed."""

    workspace: str
    """The folder to which the skills are written."""
    model: str = ""
    """The model that learns."""
    api_base: str = ""
    """The base URL of an OpenAI-compatible server for that model."""
    budget_usd: float | None = None
    """The daily limit on the cost of automatic learning, in US dollars; None if it is turned off."""
    capture: bool = False
    """Whether every finished turn is also written to a file that is kept."""
    made_folders: tuple[str, ...] = ()
    """The folders that the installation created; they are removed when they are empty again."""
    entry: InsertedMember | None = None
    """The text inserted into `openclaw.json` for the plugin."""
    made_config: bool = False
    """Whether the installation created `openclaw.json`."""


def settings_path(state: Path) -> Path:
    """Return the file of the settings.

    Args:
        state: The folder of OpenClaw.
    """
    return ace_folder(state) / "settings.json"


def read_settings(state: Path) -> Settings | None:
    """Return the settings; None if nothing is installed.

    Args:
        state: The folder of OpenClaw.

    Raises:
        InstallError: The file is broken.
    """
    path = settings_path(state)
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InstallError(f"{path} is not JSON ({error}); delete it and run 'ace openclaw install' again") from None
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
        raise InstallError(f"{path} was written by another release; delete it and run 'ace openclaw install' again")
    entry = mapping_in(data, "entry")
    return Settings(
        workspace=text_in(data, "workspace"),
        model=text_in(data, "model"),
        api_base=text_in(data, "api_base"),
        budget_usd=number_in(data, "budget_usd"),
        capture=data.get("capture", bool(entry)) is True,  # in an earlier release, the plugin did nothing else
        made_folders=tuple(str(folder) for folder in list_in(data, "made_folders")),
        entry=_inserted(entry) if entry else None,
        made_config=data.get("made_config") is True,
    )


def _inserted(entry: Record) -> InsertedMember:
    text, made = text_in(entry, "text"), int(number_in(entry, "made") or 0)
    match text_in(entry, "after"):
        case "value" | "comma" as after:
            return InsertedMember(text, made, after)
        case _:  # an earlier release has none, and inserted after the brace
            return InsertedMember(text, made)


def write_settings(state: Path, settings: Settings) -> None:
    """Write the settings.

    Args:
        state: The folder of OpenClaw.
    """
    text = json.dumps({"schema": _SCHEMA, **asdict(settings)}, indent=2, ensure_ascii=False)
    make_ace_folder(state)
    replace_file(settings_path(state), f"{text}\n".encode())
