"""Runs the command line once, and converts exceptions to a message and an exit code.

Requests for help and `ace --version` are answered here, without the parser of the commands, which takes longer to
import than they take.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING

import ace
from ace.cli.command_table import WORDS_FOR_FLAGS
from ace.cli.console import print_text
from ace.cli.errors import DONE, UsageError, exit_code_of

if TYPE_CHECKING:
    from ace.plugins import ObserverOption

__all__ = ["run"]

_DEBUG_VARIABLE = "ACE_DEBUG"
"""If this environment variable is set, the traceback of an error is shown before its message."""
_SHARED_OPTIONS = frozenset(
    ("--help", "--json", "--yes", "--skillbook", "--model", "--api-base", "--max-tokens", "--temperature", "--timeout")
)
"""The options that built-in commands share. No plugin is looked for because of one: that takes as long as a command."""


def run(arguments: Sequence[str]) -> int:
    """Run one command, or show the overview of all commands.

    Args:
        arguments: What follows `ace`.

    Returns:
        The exit code.
    """
    own: list[str] = []
    try:
        own = _without_observer_options(_without_plugin_options(arguments, os.environ), os.environ)
        return _run(own)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else DONE
    except BaseException as error:
        if os.environ.get(_DEBUG_VARIABLE):
            traceback.print_exception(error)
        code = exit_code_of(error)
        if code is None and isinstance(error, Exception):
            code = _code_of_plugin_failure(own, error)
        if code is None:
            raise
        return code


def _run(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in WORDS_FOR_FLAGS:
        arguments = [*arguments[1:], WORDS_FOR_FLAGS[arguments[0]]]
    if arguments in ([], ["--help"], ["-h"]):
        from ace.cli.overview import overview

        print_text(overview())
        return DONE
    if arguments == ["--version"]:
        print_text(f"ace {ace.__version__}")
        return DONE
    from ace.cli.help import help_of

    if (text := help_of(arguments)) is not None:
        print_text(text)
        return DONE
    from ace.cli.app import run_command

    return run_command(arguments)


def _code_of_plugin_failure(arguments: Sequence[str], error: Exception) -> int | None:
    """Report the unexpected error of a plugin's command; None if the command is not one of a plugin."""
    from ace.cli.plugin_commands import plugin_called, print_plugin_failure

    plugin = plugin_called(arguments)
    return None if plugin is None else print_plugin_failure(plugin, error)


def _without_plugin_options(arguments: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """Return the arguments without these options, and apply them to the environment.

    Args:
        arguments: What follows `ace`.
        environ: The environment, which child processes inherit.

    Raises:
        UsageError: The value of `-P` does not have the form `no:NAME`.

    Example:
        >>> environ = {}
        >>> _without_plugin_options(["-P", "no:acme", "learn", "a.jsonl"], environ), environ
        (['learn', 'a.jsonl'], {'ACE_PLUGINS_DISABLED': 'acme'})
    """
    left: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            return [*left, argument, *waiting]
        if argument == "--no-plugins":
            environ["ACE_PLUGINS"] = ""
        elif argument == "--debug" and not left:
            environ[_DEBUG_VARIABLE] = "1"
        elif argument == "-P" and not left and not waiting:
            raise _wrong("nothing")
        elif argument == "-P" and (not left or (waiting[:1] and waiting[0].startswith("no:"))):
            _disable(waiting.pop(0), environ)
        elif argument.startswith("-Pno:"):
            _disable(argument.removeprefix("-P"), environ)
        else:
            left.append(argument)
    return left


def _without_observer_options(arguments: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """Return the arguments without the options for the observers of plugins, which are put into the environment.

    Args:
        arguments: What follows `ace`.
        environ: The environment.

    Raises:
        UsageError: An option has another value than it may have, or a variable that its value requires is not set.
    """
    left: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            return [*left, argument, *waiting]
        name, equals, value = argument.partition("=")
        option = _observer_option(name) if left and name.startswith("--") else None
        if option is None:
            left.append(argument)
            continue
        if not equals:
            value = waiting.pop(0) if waiting[:1] and waiting[0] in option.values else "1"
        elif value not in option.values:
            raise UsageError(f"{name} takes {_one_of(option.values)}; got {value!r}")
        missing = [
            variable for variable in option.required_variables.get(value, ()) if not environ.get(variable, "").strip()
        ]
        if missing:
            raise UsageError(f"{name} {value} requires {' and '.join(missing)}; set the environment variables")
        environ[option.variable] = value
    return left


def _observer_option(name: str) -> ObserverOption | None:
    if name in _SHARED_OPTIONS:
        return None
    from ace.plugins.access import observer_options

    return next((option for option in observer_options(name) if f"--{option.name}" == name), None)


def _one_of(values: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(values[:-1]), *values[-1:]))) or "no value"


def _disable(value: str, environ: MutableMapping[str, str]) -> None:
    name = value.removeprefix("no:").strip()
    if not value.startswith("no:") or not name:
        raise _wrong(repr(value))
    environ["ACE_PLUGINS_DISABLED"] = ",".join(filter(None, (environ.get("ACE_PLUGINS_DISABLED", ""), name)))


def _wrong(value: str) -> UsageError:
    return UsageError(f"-P takes no:NAME, which disables the plugin NAME; got {value}")
