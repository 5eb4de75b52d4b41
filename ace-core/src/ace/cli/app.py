"""Puts the commands together, runs one, and turns what it raises into a sentence and an exit code."""

from __future__ import annotations

import difflib
import inspect
import os
import traceback
from collections.abc import Callable, Mapping, MutableMapping, Sequence

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
from ace.cli import command_table
from ace.cli.errors import WRONG_USAGE, UsageError, exit_code_of, print_error
from ace.cli.plugin_commands import (
    add_plugin_commands,
    call_command,
    names_of_broken_plugins,
    plugin_called,
    print_plugin_failure,
    why_unknown,
)
from ace.plugins import CommandSpec
from ace.plugins.loading import load_hooks

__all__ = ["build_app", "run"]

HELP = "ACE: AI agents learn from their own runs."
EPILOGUE = (
    "Options of all commands: --no-plugins disables all plugins, -P no:NAME disables one; --debug shows the traceback "
    "of an error.\n\n"
    "Settings come from options, ACE_... variables, ace.toml and your own settings file; `ace config` lists them.\n\n"
    "Exit codes: 0 done, 1 done with failures, 2 wrong usage, 130 interrupted."
)
EXAMPLES_AND_VARIABLES = """\
Examples:
  ace learn logs/                      learn from recorded traces
  ace skillbook show                   show what was learned
  ace ask "What is 2 m + 3 ft?"        answer with what was learned
  ace eval held-out.jsonl              measure whether it helps

Environment variables:
  ACE_MODEL, ACE_API_BASE, ACE_API_KEY the model, its server and its key
  ACE_SKILLBOOK                        the skillbook [default: skills.db]
  ACE_MAX_TOKENS, ACE_TEMPERATURE, ACE_TIMEOUT, ACE_EPOCHS, ACE_WORKERS,
  ACE_LAG, ACE_MAX_COST                the options of the same names
  ACE_MODELS                           the folder for models on this machine
  ACE_PLUGINS, ACE_PLUGINS_DISABLED    the plugins that are loaded or not
  VISUAL, EDITOR                       the editor of `ace skillbook edit`
  SOURCE_DATE_EPOCH                    the timestamp of all changes

"""

_OF_EVERY_COMMAND = {"--help", "-h", "--version"}
_NUMBERS = {int: "a whole number", float: "a number"}

_DEBUG_VARIABLE = "ACE_DEBUG"
"""If this environment variable is set, the traceback of an error is shown before its sentence."""


def build_app(arguments: Sequence[str] = ()) -> App:
    """Return the app with all commands. Of built-in ones no module is imported, of plugins the one that is called.

    Args:
        arguments: What follows `ace`. The command called shows its own help, which is longer than its summary.

    Raises:
        PluginError: The command of a plugin that is called cannot be imported.
    """
    app = App(
        name="ace",
        help=HELP,
        help_epilogue=_epilogue() if arguments[:1] in ([], ["--help"], ["-h"]) else EPILOGUE,
        # Markdown joins the lines of a paragraph, and takes a moment to load; the list of commands needs none.
        help_format="markdown" if arguments[:1] and not arguments[0].startswith("-") else "plaintext",
        version=lambda: f"ace {ace.__version__}",
        version_format="plaintext",
        suppress_keyboard_interrupt=False,  # `exit_code_of` says what happened
    )
    built_in = load_hooks(command_table, "ace", "ace-core", own_names=False).specs_of(CommandSpec)
    for spec in built_in:
        app.command(spec.target, name=spec.name, help=None if spec.name in arguments[:1] else spec.summary)
    add_plugin_commands(app, arguments, _built_in_names())
    return app


def _built_in_names() -> set[str]:
    return {spec.name for spec in command_table.ace_commands()}


def _epilogue() -> str:
    broken = names_of_broken_plugins(_built_in_names())
    text = f"{EXAMPLES_AND_VARIABLES}{EPILOGUE}"
    if not broken:
        return text
    return f"Plugins that cannot be loaded (`ace plugins` says why): {', '.join(broken)}.\n\n{text}"


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: What follows `ace`.

    Returns:
        The exit code.
    """
    own: Sequence[str] = ()
    try:
        own = _without_plugin_options(arguments, os.environ)
        app = build_app(own)
        if own[:1] and own[0] in _built_in_names():
            _refuse_options_as_values(app, own)
        result = call_command(*_parsed(app, own), own[0] if own else "")
    except CycloptsError as error:
        print_error(_usage_sentence(error))
        return WRONG_USAGE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except BaseException as error:
        if os.environ.get(_DEBUG_VARIABLE):
            traceback.print_exception(error)
        code = exit_code_of(error)
        plugin = plugin_called(own) if code is None else None
        if plugin is not None and isinstance(error, Exception):
            return print_plugin_failure(plugin, error)
        if code is None:
            raise
        return code
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
    """Refuse an unknown option where a command takes a path, a question or a text.

    Such an argument may begin with a hyphen, since `-` is standard input, and so cyclopts takes any option that it
    does not know for one. What follows `--` is not an option, nor is a text with a blank in it.

    Args:
        app: The app with all commands.
        arguments: What follows `ace`.

    Raises:
        UsageError: An argument is an option that the command does not have.
    """
    before_delimiter = arguments[: arguments.index("--")] if "--" in arguments else arguments
    hyphened = {each for each in before_delimiter if each != "-" and is_option_like(each) and len(each.split()) == 1}
    if hyphened & _OF_EVERY_COMMAND:
        return  # nothing will be read but help
    chain, apps, _ = app.parse_commands(arguments)
    if not hyphened - _option_names(apps[-1]):
        return
    _, bound, _, _ = app.parse_known_args(arguments)
    for value in bound.args:
        for each in value if isinstance(value, list) else [value]:
            if each in hyphened:
                raise UsageError(_unknown_option(each, apps[-1], chain))


def _option_names(command: App) -> set[str]:
    own: set[str] = set()
    if command.default_command is not None:
        own.update(name for argument in command.assemble_argument_collection() for name in argument.names)
    return {name for name in own if name.startswith("-")} | _OF_EVERY_COMMAND


def _unknown_option(option: str, command: App, chain: Sequence[str]) -> str:
    name = option.partition("=")[0]
    near = difflib.get_close_matches(name, sorted(_option_names(command)), n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown option {name!r}; {meant}{_where_help_is(chain)}"


def _usage_sentence(error: CycloptsError) -> str:
    """Return what is wrong with the arguments, on one line, and where help is."""
    chain = error.command_chain or ()
    error.verbose = False  # it would name the function and its line
    match error:
        case UnknownOptionError(app=App() as app):
            return _unknown_option(error.token.keyword or error.token.value, app, chain)
        case UnknownCommandError(unused_tokens=[first, *_]) if first.startswith("-"):
            said = f"unknown option {first!r}; the options of a command follow its name"
        case UnusedCliTokensError(unused_tokens=[first, *_]):
            said = f"unexpected argument {first!r}"
        case MissingArgumentError(argument=Argument() as argument) if type(error) is MissingArgumentError:
            said = _missing(argument, error.root_input_tokens or ())
        case CoercionError(argument=Argument() as argument, token=Token() as token) if error.target_type in _NUMBERS:
            said = f"{token.keyword or argument.name} must be {_NUMBERS[error.target_type]}, got {token.value!r}"
        case _:
            said = " ".join(str(error).split())
            said = said if said.endswith("...") else said.rstrip(".")
    return f"{said[:1].lower() if said[1:2].islower() else said[:1]}{said[1:]}; {_where_help_is(chain)}"


def _missing(argument: Argument, given: Sequence[str]) -> str:
    if not argument.name.startswith("-"):
        return f"the argument {argument.name.upper()} is missing"
    is_given = any(name in given for name in argument.names)
    return f"the option {argument.name} needs a value" if is_given else f"the option {argument.name} is required"


def _where_help_is(chain: Sequence[str]) -> str:
    return f"`{' '.join(('ace', *chain))} --help` shows how to use it"


def _without_plugin_options(arguments: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """Return the arguments without these options; what they say is put into the environment.

    Args:
        arguments: What follows `ace`.
        environ: The environment, which processes that are started from here inherit.

    Raises:
        UsageError: `-P` is given something else than `no:NAME`.

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


def _disable(value: str, environ: MutableMapping[str, str]) -> None:
    name = value.removeprefix("no:").strip()
    if not value.startswith("no:") or not name:
        raise _wrong(repr(value))
    environ["ACE_PLUGINS_DISABLED"] = ",".join(filter(None, (environ.get("ACE_PLUGINS_DISABLED", ""), name)))


def _wrong(value: str) -> UsageError:
    return UsageError(f"-P takes no:NAME, which disables the plugin NAME; got {value}")
