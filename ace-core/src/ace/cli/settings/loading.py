"""Puts the settings together from all their sources."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ace.cli.errors import UsageError
from ace.cli.settings.fields import FIELDS, SettingField, SettingValue
from ace.cli.settings.files import FileValue, read_settings_file
from ace.cli.settings.places import project_file, user_file

__all__ = ["Settings", "load_settings"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one command, and where each came from."""

    model: str | None
    """The model string; None leaves the choice to the key-free default."""
    api_base: str | None
    """The address of an own server."""
    api_key: str | None = field(repr=False)
    """The key, where it is not in the variable of the provider."""
    skillbook: str
    """The path of the skillbook, or `scheme://...`."""
    max_tokens: int
    """The longest answer, in tokens."""
    temperature: float
    """The sampling temperature."""
    timeout: float
    """How long to wait for the model, in seconds."""
    epochs: int
    """How often the inputs are gone through."""
    workers: int | None
    """How many inputs are worked on at once; None is the default of the runner."""
    lag: int | None
    """How many earlier inputs may not be learned yet; None is the default of the runner."""
    max_cost: float | None
    """US dollars after which a run begins nothing new."""
    origins: Mapping[str, str]
    """Where each value came from, by name, in words for people."""


def load_settings(
    flags: Mapping[str, SettingValue], *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Put the settings together: defaults < user file < project file < environment < flags.

    Args:
        flags: The values of the flags by name; None where a flag was not given.
        environ: The environment; by default that of the process.
        folder: Where the command runs; by default the current folder.

    Raises:
        UsageError: A source holds an unknown name or a value that makes no sense.
    """
    variables = os.environ if environ is None else environ
    values: dict[str, SettingValue] = {each.name: each.default for each in FIELDS}
    origins = dict.fromkeys(values, "default")
    user = user_file(variables)
    if user.is_file():
        _take_file(user, read_settings_file(user), values, origins)
    project = project_file(Path.cwd() if folder is None else folder)
    if project is not None:
        _take_file(project, _trusted(project, read_settings_file(project)), values, origins)
    for each in FIELDS:
        if variables.get(each.variable):
            values[each.name] = _from_variable(each, variables[each.variable])
            origins[each.name] = f"variable {each.variable}"
        if flags.get(each.name) is not None:
            values[each.name] = _from_flag(each, flags[each.name])
            origins[each.name] = f"flag {_flag(each)}"
    found: dict[str, Any] = {**values, "origins": origins}  # each value was checked against its field
    return Settings(**found)


def _take_file(
    path: Path, entries: Mapping[str, FileValue], values: dict[str, SettingValue], origins: dict[str, str]
) -> None:
    from ace.skillbook.stores import has_scheme

    for name, (value, line) in entries.items():
        values[name] = value
        if name == "skillbook" and isinstance(value, str) and not has_scheme(value):
            values[name] = str(path.parent / Path(value).expanduser())
        origins[name] = f"{path}, line {line}"


def _trusted(path: Path, entries: Mapping[str, FileValue]) -> Mapping[str, FileValue]:
    """Refuse what would let a project that somebody cloned take the user's key."""
    if "api_key" in entries:
        line = entries["api_key"].line
        raise UsageError(
            f"{path}, line {line}: a key does not belong into the file of a project; "
            "put 'api_key' into your own settings file or the variable ACE_API_KEY"
        )
    base = entries.get("api_base")
    if base is not None and base.value is not None and not _is_this_machine(str(base.value)):
        raise UsageError(
            f"{path}, line {base.line}: 'api_base' in the file of a project may only name this machine, since your "
            "key is sent there; put it into your own settings file, the variable ACE_API_BASE or --api-base"
        )
    return entries


def _is_this_machine(address: str) -> bool:
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _from_variable(each: SettingField, text: str) -> SettingValue:
    try:
        return each.parsed(text)
    except ValueError as error:
        raise UsageError(f"the variable {each.variable} {error}") from error


def _from_flag(each: SettingField, value: SettingValue) -> SettingValue:
    try:
        return each.checked(value)
    except ValueError as error:
        raise UsageError(f"the option {_flag(each)} {error}") from error


def _flag(each: SettingField) -> str:
    return f"--{each.name.replace('_', '-')}"
