"""The subcommands of `ace` that plugins give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ace.plugins.access import only
from ace.plugins.catalogue import catalogue
from ace.plugins.specs import CommandSpec

__all__ = ["PluginCommand", "load_command", "plugin_commands"]


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A subcommand, as the help shows it."""

    name: str
    """The name of the plugin."""
    summary: str
    """One line."""


def plugin_commands() -> list[PluginCommand]:
    """Return the subcommands of all plugins, by name. No plugin is imported; their sources are read."""
    return [
        PluginCommand(plugin.installed.name, plugin.source.command_summary or plugin.installed.summary)
        for plugin in catalogue().giving("commands")
        if plugin.source is not None
    ]


def load_command(name: str) -> Callable[..., Any]:
    """Import the subcommand of a plugin: a typed function or a cyclopts `App`.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        PluginError: It cannot be loaded; the text names plugin, distribution, version and cause.
    """
    found: Callable[..., Any] = only(name, CommandSpec)
    return found
