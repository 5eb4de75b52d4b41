"""Adds the server to the configuration of MCP clients, and removes it without changing any other byte.

A client keeps its servers in one JSON object. The inserted text is recorded in the user's data folder, so that exactly
this text can be removed. Both commands may be killed at any time: the record is written before the configuration is
changed, and removed afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ace.integrations import (
    InsertedMember,
    JsonTextError,
    check_json,
    folder_lock,
    insert_member,
    real_path,
    remove_member,
    value_at,
    write_durably,
)
from ace_mcp.config import data_folder

__all__ = [
    "CLIENTS",
    "ConfigChange",
    "InstallationError",
    "MCPClient",
    "Scope",
    "config_file",
    "install",
    "server_entry",
    "uninstall",
]

SERVER_NAME = "ace"
"""The name of our server in the configuration of a client."""
Scope = Literal["user", "project"]

_NEW_CONFIG = "{}\n"


class InstallationError(ValueError):
    """A configuration cannot be changed. The message says why, and what to do."""


RECORDS_FILE = "mcp-clients.json"
"""The file in the data folder that records the installations."""


@dataclass(frozen=True, slots=True)
class MCPClient:
    """The configuration format of one client."""

    name: str
    """Its name on the command line."""
    title: str
    """Its display name."""
    key: str
    """The key of the object that contains the servers."""
    has_comments: bool
    """Whether the client accepts comments and trailing commas."""
    has_type: bool
    """Whether an entry has the field `type` with its transport."""
    project_file: str | None
    """The configuration of a project, relative to its folder; None if the client has none."""


CLIENTS = {
    client.name: client
    for client in (
        MCPClient("claude-code", "Claude Code", "mcpServers", False, True, ".mcp.json"),
        MCPClient("claude-desktop", "Claude Desktop", "mcpServers", False, False, None),
        MCPClient("cursor", "Cursor", "mcpServers", True, True, ".cursor/mcp.json"),
        MCPClient("vscode", "VS Code", "servers", True, True, ".vscode/mcp.json"),
    )
}
"""The clients, by their names on the command line."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change to a configuration, which may be a dry run."""

    path: Path
    """The file."""
    before: str | None
    """Its text before; None if there was no file."""
    after: str | None
    """Its text after; None if there is no file."""

    @property
    def is_change(self) -> bool:
        """Whether the text differs."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class _Record:
    """The text that was inserted into one configuration."""

    inserted: InsertedMember
    is_new_file: bool
    """Whether there was no file."""


@dataclass(slots=True)
class _Records:
    """All installations."""

    entries: dict[str, _Record] = field(default_factory=dict)
    """The inserted texts, by the paths of the configurations."""
    made_folders: list[str] = field(default_factory=list)
    """The folders that were created; they are removed when they are empty again."""


def config_file(
    client: MCPClient,
    scope: Scope,
    *,
    folder: Path,
    platform: str = sys.platform,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return the configuration file of a client.

    Args:
        scope: Whether the server is for all projects of the user, or for one.
        folder: The folder of the project.
        platform: The platform, as `sys.platform` names it.
        environ: The environment of the client.

    Raises:
        InstallationError: The client has no configuration for projects.

    Example:
        >>> config_file(CLIENTS["vscode"], "project", folder=Path("/home/me/shop")).as_posix()
        '/home/me/shop/.vscode/mcp.json'
    """
    if scope == "project":
        if client.project_file is None:
            raise InstallationError(f"{client.title} has no configuration for projects; omit --scope project")
        return folder / client.project_file
    home = Path.home()
    match client.name:
        case "claude-code":
            return Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
        case "cursor":
            return home / ".cursor/mcp.json"
        case "claude-desktop":
            return _application_folder(home, platform, environ) / "Claude/claude_desktop_config.json"
        case _:
            return _application_folder(home, platform, environ) / "Code/User/mcp.json"


def _application_folder(home: Path, platform: str, environ: Mapping[str, str]) -> Path:
    """Return the folder for the settings of desktop applications."""
    if platform == "darwin":
        return home / "Library/Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData/Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def server_entry(client: MCPClient, settings: Mapping[str, str]) -> dict[str, object]:
    """Return the configuration entry that makes a client start the server.

    Args:
        settings: Variables for the server, such as `ACE_MCP_SKILLBOOK`.
    """
    entry: dict[str, object] = {"type": "stdio"} if client.has_type else {}
    # The full path of the interpreter, because the client does not activate the virtual environment. With -E and -P,
    # neither environment variables nor the client's working folder change which modules are loaded.
    entry |= {"command": sys.executable, "args": ["-E", "-P", "-m", "ace_mcp"]}
    return {**entry, "env": dict(settings)} if settings else entry


def install(client: MCPClient, path: Path, entry: Mapping[str, object], *, dry_run: bool = False) -> ConfigChange:
    """Add the server to a configuration, or update the entry of an earlier installation.

    Args:
        path: Its configuration; the file is created if it is missing.
        entry: The entry of the server.
        dry_run: Whether to write nothing.

    Returns:
        The change.

    Raises:
        InstallationError: The file is broken, or has an entry of that name that was not installed here.
        OSError: A file cannot be read or written.
    """
    path = real_path(path)
    made_folders = _missing_folders(_records_path(), path)
    with nullcontext() if dry_run else folder_lock(_records_path()):
        records = _read_records()
        record = records.entries.get(str(path))
        before = _read(path)
        text = _NEW_CONFIG if before is None else _checked(client, path, before)
        is_new_file = before is None
        keys = (client.key, SERVER_NAME)
        try:
            if (value := value_at(text, keys)) is not None:
                if _is_same(value, entry):
                    return ConfigChange(path, before, before)
                if record is None:
                    raise InstallationError(_not_ours(path))
                text = remove_member(text, keys, record.inserted)
                is_new_file = record.is_new_file
            text, inserted = insert_member(text, keys, entry)
        except JsonTextError as error:
            raise InstallationError(f"{path}, {error}; correct the file first") from error
        if not dry_run:
            records.entries[str(path)] = _Record(inserted, is_new_file)
            records.made_folders = list(dict.fromkeys([*records.made_folders, *made_folders]))
            _write_records(records)
            write_durably(path, text.encode())
        return ConfigChange(path, before, text)


def uninstall(client: MCPClient, path: Path, *, dry_run: bool = False) -> ConfigChange:
    """Remove the server from a configuration. Other changes to the file are kept.

    Args:
        path: Its configuration.
        dry_run: Whether to write nothing.

    Returns:
        The change.

    Raises:
        InstallationError: The file is broken, or has an entry of that name that was not installed here.
        OSError: A file cannot be read or written.
    """
    path = real_path(path)
    if not _records_path().exists():
        dry_run = True  # nothing was installed; an existing entry is not ours
    with nullcontext() if dry_run else folder_lock(_records_path()):
        records = _read_records()
        record = records.entries.pop(str(path), None)
        before = after = _read(path)
        if before is not None:
            text = _checked(client, path, before)
            keys = (client.key, SERVER_NAME)
            if record is None and value_at(text, keys) is not None:
                raise InstallationError(_not_ours(path))
            if record is not None:
                rest = remove_member(text, keys, record.inserted)
                after = None if record.is_new_file and rest == _NEW_CONFIG else rest
        if record is not None and not dry_run:
            if after is None:
                path.unlink(missing_ok=True)
            elif after != before:
                write_durably(path, after.encode())
            _write_records(records)
    if record is not None and not dry_run:
        _remove_empty(records)
    return ConfigChange(path, before, after)


def _read(path: Path) -> str | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InstallationError(f"{path}, line {line}: not UTF-8; correct the file first") from error


def _checked(client: MCPClient, path: Path, text: str) -> str:
    try:
        check_json(text, comments=client.has_comments)
    except JsonTextError as error:
        raise InstallationError(f"{path}, {error}; correct the file first") from error
    return text


def _is_same(value: str, entry: Mapping[str, object]) -> bool:
    try:
        found: object = json.loads(value)
    except ValueError:  # it has comments, so it was edited
        return False
    return found == entry


def _not_ours(path: Path) -> str:
    return f"{path} has a server {SERVER_NAME!r} that `ace mcp install` did not add; rename or remove it first"


def _records_path() -> Path:
    return data_folder() / RECORDS_FILE


def _read_records() -> _Records:
    path = _records_path()
    try:
        return TypeAdapter(_Records).validate_json(path.read_bytes())
    except FileNotFoundError:
        return _Records()
    except ValidationError as error:
        raise InstallationError(
            f"{path}, the record of installations, is damaged; delete it, and remove the server {SERVER_NAME!r} "
            "from the configuration of your clients"
        ) from error


def _write_records(records: _Records) -> None:
    """Write the records, or delete the file if there are no entries. The caller holds the lock."""
    if records.entries:
        write_durably(_records_path(), f"{json.dumps(asdict(records), indent=2)}\n".encode())
    else:
        _records_path().unlink(missing_ok=True)


def _missing_folders(*paths: Path) -> list[str]:
    return [str(parent) for path in paths for parent in path.absolute().parents if not parent.exists()]


def _remove_empty(records: _Records) -> None:
    for folder in sorted(records.made_folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # it contains other files, or no longer exists
            Path(folder).rmdir()
