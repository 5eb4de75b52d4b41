"""Adds the entry of our plugin to OpenClaw's configuration, and removes it, without changing any other byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ace_openclaw.json5_members import Member, member_path, members_at, object_start

__all__ = ["PLUGIN_ID", "InsertedEntry", "has_entry", "inserted", "missing_in_allow_list", "removed"]

PLUGIN_ID = "ace-capture"
_PATH = ("plugins", "entries", PLUGIN_ID)


@dataclass(frozen=True)
class InsertedEntry:
    """The text that was inserted into a configuration."""

    text: str
    """The inserted characters."""
    made: int
    """The number of enclosing objects that were inserted, too."""


def has_entry(config: str) -> bool:
    """Return whether a configuration has an entry for our plugin.

    Args:
        config: The text of `openclaw.json`.

    Raises:
        Json5Error: The configuration is not an object, or is broken.
    """
    return len(member_path(config, _PATH)) == len(_PATH)


def inserted(config: str, entry: Mapping[str, object]) -> tuple[str, InsertedEntry]:
    """Return the configuration with the entry, and the inserted text.

    Args:
        config: The text of `openclaw.json`, as JSON5.
        entry: The settings of the plugin.

    Raises:
        Json5Error: The configuration is not an object, or is broken.
        ValueError: The configuration already has an entry.
    """
    if has_entry(config):
        raise ValueError(f"it has an entry {PLUGIN_ID!r} already")
    found = member_path(config, _PATH)
    start = found[-1].value if found else object_start(config)
    if config[start] != "{":
        raise ValueError(f"{'.'.join(_PATH[: len(found)])} is not an object")
    missing = _PATH[len(found) :]
    value = json.dumps(entry)
    for name in reversed(missing[1:]):
        value = f"{{{json.dumps(name)}: {value}}}"
    comma = "," if any(True for _ in members_at(config, start)) else ""
    text = f" {json.dumps(missing[0])}: {value}{comma}"
    return config[: start + 1] + text + config[start + 1 :], InsertedEntry(text, len(missing) - 1)


def removed(config: str, entry: InsertedEntry) -> str:
    """Return the configuration without the entry, even if OpenClaw has rewritten the file.

    Args:
        config: The text of `openclaw.json`.
        entry: The inserted text.

    Raises:
        Json5Error: The configuration is not an object, or is broken.
    """
    if config.count(entry.text) == 1:
        return config.replace(entry.text, "")
    found = member_path(config, _PATH)
    if len(found) < len(_PATH):
        return config
    config = _cut(config, found[-1])
    for depth in range(len(_PATH) - 1, len(_PATH) - 1 - entry.made, -1):
        around = member_path(config, _PATH[:depth])
        if len(around) < depth or any(True for _ in members_at(config, around[-1].value)):
            break
        config = _cut(config, around[-1])
    return config


def missing_in_allow_list(config: str) -> bool:
    """Return whether the configuration has a list of allowed plugins that does not contain ours.

    Args:
        config: The text of `openclaw.json`.
    """
    found = member_path(config, ("plugins", "allow"))
    return len(found) == 2 and PLUGIN_ID not in config[found[-1].value : found[-1].end]


def _cut(config: str, member: Member) -> str:
    """Return the text without a member, the comma after (or before) it, and the whitespace before it."""
    head, tail = config[: member.start].rstrip(), config[member.end :]
    if tail.lstrip().startswith(","):
        return head + tail.lstrip().removeprefix(",")
    return head.removesuffix(",") + tail
