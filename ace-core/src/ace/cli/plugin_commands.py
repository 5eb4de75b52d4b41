"""Puts the commands of plugins beside the built-in ones. Only the one that is called is imported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cyclopts import App

from ace.cli.console import note

__all__ = ["add_plugin_commands", "not_called"]

GROUP = "Commands of plugins"


def not_called() -> None:
    """Stand for a command that is not the one that is called; so it is not imported to show the help."""


def add_plugin_commands(app: App, arguments: Sequence[str], built_in: Collection[str]) -> None:
    """Add the commands of all plugins.

    Args:
        app: The app.
        arguments: What follows `ace`; the command that they call is imported.
        built_in: The names that plugins cannot take.

    Raises:
        PluginError: The command that is called cannot be imported.
    """
    from ace.plugins.commands import load_command, plugin_commands

    for command in plugin_commands():
        shown = command.name.replace("_", "-")
        if shown in built_in:
            note(f"ace: the plugin {command.name!r} has a command {shown!r}, which ace has itself; it is left out")
            continue
        names = [shown] if shown == command.name else [shown, command.name]
        if arguments and arguments[0] in names:
            _add_called(app, load_command(command.name), arguments[0])
        else:
            app.command("ace.cli.plugin_commands:not_called", name=shown, help=command.summary, group=GROUP)


def _add_called(app: App, called: App | Callable[..., object], name: str) -> None:
    if isinstance(called, App):
        app.command(called, name=name)  # it has a group of its own, and takes no other
    else:
        app.command(called, name=name, group=GROUP)
