"""The commands of plugins: listed with the built-in ones, called with their context, their errors attributed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from cyclopts import App, Parameter

from ace.cli.command_table import built_in_names
from ace.cli.console import results_only
from ace.cli.errors import WITH_FAILURES, print_error
from ace.cli.overview import plugin_summaries

if TYPE_CHECKING:
    from ace.cli.settings import Settings, SettingValue
    from ace.plugins.loading import Plugin
    from ace.protocols.errors import LLMCallError
    from ace.protocols.llm import LLMClientLike
    from ace.skillbook import Skillbook

__all__ = [
    "CommandContext",
    "add_plugin_commands",
    "call_command",
    "not_called",
    "plugin_called",
    "print_plugin_failure",
    "why_unknown",
]

GROUP = "Plugin commands"


@Parameter(parse=False)
@final
@dataclass(frozen=True, slots=True)
class CommandContext:
    """The user's settings, model and skillbook, for the command of a plugin.

    A command that has a keyword-only parameter of this type gets one. It is not an option of the command.

    Example:
        >>> def command(question: str, *, model: str | None = None, context: CommandContext) -> None:
        ...     settings = context.settings(model=model)
        ...     with context.skillbook(settings) as book, context.model(settings) as client:
        ...         print(client.complete(f"{book.as_prompt()}\\n\\n{question}").text)
    """

    name: str
    """The name of the command, as the user typed it."""

    def settings(self, **options: SettingValue) -> Settings:
        """Return the settings: defaults < user file < project file < environment < options of the command.

        Args:
            **options: Values by the names of the settings, such as `model`; None where an option was not given.

        Raises:
            UsageError: A source holds an unknown name or an unusable value. The text names the source.

        Example:
            >>> CommandContext("acme").settings(skillbook="team.db").skillbook
            'team.db'
        """
        from ace.cli.settings import SETTINGS, load_settings

        for option in options:
            if option not in SETTINGS:
                raise TypeError(
                    f"settings() got {option!r}, which is not a setting; the settings are {', '.join(SETTINGS)}"
                )
        return load_settings(options)

    def own_setting(self, name: str) -> str | None:
        """Return a text from the table of the plugin in a settings file: user file < project file < environment.

        Args:
            name: The name of the setting, such as `test` for the line `test = "pytest -q"` below `[acme]`. Its
                variable is `ACE_ACME_TEST`. A project file may set it; before such a value is run or sent, show it.

        Returns:
            The value; None if it is not set.

        Raises:
            UsageError: A file cannot be read, or the value is not a text.

        Example:
            >>> CommandContext("acme").own_setting("test") is None
            True
        """
        from ace.cli.settings_file import plugin_setting

        found = plugin_setting(self.name.replace("-", "_"), name)
        return None if found is None else found.value

    @contextmanager
    def model(self, settings: Settings, *, assume_yes: bool = False) -> Iterator[LLMClientLike]:
        """Open the client of the model that the settings name, else of the default model on this machine.

        A local model that is missing is fetched after the user has agreed. Inside the block, warnings are shown as
        lines on standard error, and the error of a model call becomes a sentence that says what to do.

        Args:
            assume_yes: Fetch a missing model without asking.

        Raises:
            UsageError: There is no such model, or it cannot be called.
        """
        from ace.cli.console import warnings_shown
        from ace.cli.fetch_model import fetch_if_missing
        from ace.cli.model_choice import client_from_settings, told_plainly

        client = client_from_settings(settings)
        fetch_if_missing(settings, assume_yes=assume_yes)
        with warnings_shown(), told_plainly(settings):
            yield client

    def explained(self, error: LLMCallError, settings: Settings) -> str:
        """Return the error of a model call as a sentence that says what to do.

        It is for a command that keeps the client after the block of `model`, such as a server.

        Args:
            settings: The settings that the client was made from.

        Example:
            >>> from ace import LLMCallError
            >>> context = CommandContext("acme")
            >>> settings = context.settings(model="openai/gpt-4o-mini")
            >>> context.explained(LLMCallError("unauthorized", status_code=401), settings)
            "the provider refused the key for the model 'openai/gpt-4o-mini': check the environment variable or ..."
        """
        from ace.cli.model_choice import explained

        return explained(error, settings)

    @contextmanager
    def skillbook(self, settings: Settings, *, start: bool = False) -> Iterator[Skillbook]:
        """Open the skillbook that the settings name, a file or a store of a plugin.

        Args:
            start: Whether to start one if there is none.

        Raises:
            UsageError: It does not exist, or cannot be read. The text says why, and what to do.
        """
        from ace.cli.skillbooks.opened_book import open_or_start, opened

        with open_or_start(settings.skillbook) if start else opened(settings.skillbook) as book:
            yield book


def not_called() -> None:
    """Represent a command that is not the one being called; so it is not imported to show the help."""


def add_plugin_commands(app: App, arguments: Sequence[str]) -> None:
    """Add the command of the plugin that is called; of all plugins, if none of them is.

    Args:
        arguments: What follows `ace`; the command that they call is imported.

    Raises:
        PluginError: The command that is called cannot be imported.
    """
    plugin = plugin_called(arguments)
    if plugin is not None:
        from ace.plugins.access import load_command

        _add_called(app, load_command(plugin.name), arguments[0])
        return
    for name, summary in plugin_summaries().items():
        shown = name.replace("_", "-")
        if shown not in built_in_names():  # `ace --help` and `ace plugins` say so
            app.command("ace.cli.plugin_commands:not_called", name=shown, help=summary, group=GROUP)


def plugin_called(arguments: Sequence[str]) -> Plugin | None:
    """Return the plugin whose command is called; None if it is not a command of a plugin.

    Args:
        arguments: What follows `ace`.

    Raises:
        PluginError: A plugin has this name, but cannot be loaded.
    """
    if not arguments or arguments[0] in built_in_names() or arguments[0].startswith("-"):
        return None
    from ace.plugins import CommandSpec, UnknownPluginError
    from ace.plugins.catalogue import catalogue

    try:
        plugin = catalogue().find(arguments[0])
    except UnknownPluginError:
        return None
    is_called = arguments[0].replace("-", "_") == plugin.name
    return plugin if is_called and plugin.load().specs_of(CommandSpec) else None


def _add_called(app: App, called: App | Callable[..., object], name: str) -> None:
    if isinstance(called, App):
        app.command(called, name=name)  # it has a group of its own, and takes no other
    else:
        app.command(called, name=name, group=GROUP)


def call_command(
    command: Callable[..., object], bound: inspect.BoundArguments, ignored: Mapping[str, object], name: str
) -> object:
    """Call a command with the arguments that were parsed, and with its context if it asks for one.

    Args:
        bound: Its arguments.
        ignored: Its parameters that are not options, with their annotations.
        name: The name of the command.
    """
    contexts = {
        parameter: CommandContext(name)
        for parameter, annotation in ignored.items()
        if annotation in (CommandContext, CommandContext | None)
    }
    is_built_in = getattr(command, "__module__", "").startswith("ace.cli.commands")
    with results_only() if is_built_in else nullcontext():
        returned = command(*bound.args, **bound.kwargs, **contexts)
    if inspect.iscoroutine(returned):
        import asyncio

        return asyncio.run(returned)
    return returned


def print_plugin_failure(plugin: Plugin, error: Exception) -> int:
    """Say that the command of a plugin failed with an error that it did not expect.

    Args:
        error: What its command raised.

    Returns:
        The exit code.
    """
    from ace.protocols.errors import error_text

    said = ": ".join(filter(None, (type(error).__name__, error_text(error))))
    shown = plugin.name.replace("_", "-")
    print_error(f"{plugin.owner}: its command failed: {said}; `ace --debug {shown} ...` shows where")
    return WITH_FAILURES


def why_unknown(name: str) -> str | None:
    """Explain why an installed plugin does not have the command that was called; None if no plugin has that name.

    Args:
        name: What the user typed as the command.
    """
    from ace.plugins import PluginError, UnknownPluginError
    from ace.plugins.catalogue import catalogue

    try:
        plugin = catalogue().find(name).load()
    except UnknownPluginError as error:
        return str(error) if any(name.replace("-", "_") == plugin.name for plugin in catalogue().plugins()) else None
    except PluginError as error:
        return str(error)
    return f"{plugin.owner} provides no command; it provides: {', '.join(plugin.specs)}"
