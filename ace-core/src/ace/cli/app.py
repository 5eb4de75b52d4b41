"""Collects the commands, parses the arguments, and calls a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Token,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.argument import Argument
from cyclopts.utils import is_option_like

import ace
from ace.cli.command_table import ace_commands, built_in_names
from ace.cli.console import print_text
from ace.cli.errors import DONE, WRONG_USAGE, UsageError, print_error
from ace.cli.help import HELP_FLAGS, asks_for_help, page_of
from ace.cli.overview import HELP
from ace.cli.plugin_commands import (
    add_plugin_commands,
    call_command,
    why_unknown,
)

__all__ = ["build_app", "run_command"]

_OF_EVERY_COMMAND = {*HELP_FLAGS, "--version"}
_NUMBERS = {int: "a whole number", float: "a number"}


def build_app(arguments: Sequence[str] = ()) -> App:
    """Return the app with all commands. Only the module of the command that is called is imported.

    Plugins are not looked for if a built-in command is called.

    Args:
        arguments: What follows `ace`. The command called shows its own help, which is longer than its summary.

    Raises:
        PluginError: The command of a plugin that is called cannot be imported.
    """
    app = App(
        name="ace",
        help=HELP,
        version=lambda: f"ace {ace.__version__}",
        version_format="plaintext",
        suppress_keyboard_interrupt=False,  # `exit_code_of` says what happened
    )
    for spec in ace_commands():
        app.command(spec.target, name=spec.name, help=None if spec.name in arguments[:1] else spec.summary)
    if not arguments or arguments[0] not in built_in_names():
        add_plugin_commands(app, arguments)
    elif arguments[1:2] in ([], ["--help"], ["-h"]):
        _import_commands(app[arguments[0]])
    return app


def _import_commands(app: App) -> None:
    """Import the commands of an app, whose summaries its help shows."""
    for name in app:
        if name not in _OF_EVERY_COMMAND:
            _ = app[name]


def run_command(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name.

    Args:
        arguments: What follows `ace`, without the options of all commands.

    Returns:
        The exit code.

    Raises:
        BaseException: What the command raises.
    """
    try:
        app = build_app(arguments)
        if asks_for_help(arguments):
            chain, apps, _ = app.parse_commands([word for word in arguments if word not in HELP_FLAGS])
            if chain:
                print_text(page_of(apps[-1], chain).text(everything="--help-all" in arguments))
                return DONE
        if arguments[:1] and arguments[0] in built_in_names():
            _refuse_options_as_values(app, arguments)
        result = call_command(*_parsed(app, arguments), arguments[0] if arguments else "")
    except CycloptsError as error:
        print_error(_usage_sentence(error))
        return WRONG_USAGE
    return result if isinstance(result, int) else 0


def _parsed(
    app: App, arguments: Sequence[str]
) -> tuple[Callable[..., object], inspect.BoundArguments, Mapping[str, object]]:
    """Return the command that is called, its arguments, and its parameters that are not options.

    Raises:
        CycloptsError: The arguments are wrong.
        UsageError: The command would be one of a plugin that cannot be loaded.
    """
    try:
        return app.parse_args(arguments, exit_on_error=False, print_error=False, help_on_error=False)
    except UnknownCommandError as error:
        why = None if error.command_chain else why_unknown(arguments[0])
        if why is None:
            raise
        raise UsageError(why) from error


def _refuse_options_as_values(app: App, arguments: Sequence[str]) -> None:
    """Reject an unknown option where a command takes a path, a question or a text.

    Such an argument may begin with a hyphen, since `-` is standard input, and so cyclopts takes any option that it
    does not know for one. What follows `--` is not an option, nor is a text with a blank in it.

    Args:
        app: The app with all commands.
        arguments: What follows `ace`.

    Raises:
        UsageError: An argument is an option that the command does not have.
    """
    before_delimiter = arguments[: arguments.index("--")] if "--" in arguments else arguments
    hyphened = {
        argument
        for argument in before_delimiter
        if argument != "-" and is_option_like(argument) and len(argument.split()) == 1
    }
    if hyphened & _OF_EVERY_COMMAND:
        return  # nothing will be read but help
    chain, apps, _ = app.parse_commands(arguments)
    if not hyphened - _option_names(apps[-1]):
        return
    _, bound, _, _ = app.parse_known_args(arguments)
    for value in bound.args:
        for item in value if isinstance(value, list) else [value]:
            if item in hyphened:
                raise UsageError(_unknown_option(item, apps[-1], chain))


def _option_names(command: App) -> set[str]:
    own: set[str] = set()
    if command.default_command is not None:
        own.update(name for argument in command.assemble_argument_collection() for name in argument.names)
    return {name for name in own if name.startswith("-")} | _OF_EVERY_COMMAND


def _unknown_option(option: str, command: App, chain: Sequence[str]) -> str:
    name = option.partition("=")[0]
    from ace._internal.arguments import closest_name  # only needed for an error

    near = closest_name(name, _option_names(command))
    meant = f"did you mean {near!r}? " if near else ""
    return f"unknown option {name!r}; {meant}{_where_help_is(chain)}"


def _usage_sentence(error: CycloptsError) -> str:
    """Return one line that says what is wrong with the arguments, and how to get help."""
    chain = error.command_chain or ()
    error.verbose = False  # it would name the function and its line
    match error:
        case UnknownOptionError(app=App() as app):
            return _unknown_option(error.token.keyword or error.token.value, app, chain)
        case UnknownCommandError(unused_tokens=[first, *_]) if first.startswith("-"):
            said = (
                f"a command of `ace {' '.join(chain)}` is missing before {first!r}"
                if chain
                else f"unknown option {first!r}; the options of a command follow its name"
            )
        case UnusedCliTokensError(unused_tokens=[first, *_]):
            said = f"unexpected argument {first!r}"
        case MissingArgumentError(argument=Argument() as argument) if type(error) is MissingArgumentError:
            said = _missing(argument, error.root_input_tokens or ())
        case CoercionError(argument=Argument() as argument, token=Token() as token) if error.target_type in _NUMBERS:
            said = f"{token.keyword or argument.name} must be {_NUMBERS[error.target_type]}, got {token.value!r}"
        case CoercionError(argument=Argument() as argument, token=Token() as token) if _choices(error.target_type):
            choices = ", ".join(f'"{choice}"' for choice in _choices(error.target_type))
            said = f'invalid value "{token.value}" for {token.keyword or argument.name}. Choose from: {choices}'
        case _:
            said = " ".join(str(error).split())
            said = said if said.endswith("...") else said.rstrip(".")
    return f"{said[:1].lower() if said[1:2].islower() else said[:1]}{said[1:]}; {_where_help_is(chain)}"


def _choices(kind: Any) -> list[str]:
    """Return the values of a union of literals, which cyclopts would print as a type; empty for other types."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    parts = [_choices(part) for part in get_args(kind)] if get_origin(kind) in (Union, UnionType) else []
    return [choice for part in parts for choice in part] if all(parts) else []


def _missing(argument: Argument, arguments: Sequence[str]) -> str:
    if not argument.name.startswith("-"):
        return f"the argument {argument.name.upper()} is missing"
    is_given = any(name in arguments for name in argument.names)
    return f"the option {argument.name} needs a value" if is_given else f"the option {argument.name} is required"


def _where_help_is(chain: Sequence[str]) -> str:
    return f"`{' '.join(('ace', *chain))} --help` shows how to use it"
