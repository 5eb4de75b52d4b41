"""Puts the commands together, runs one, and turns what it raises into a sentence and an exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cyclopts import App, CycloptsError

import ace
from ace.cli import command_table
from ace.cli.errors import WRONG_USAGE, exit_code_of, print_error
from ace.cli.plugin_commands import add_plugin_commands
from ace.cli.plugin_options import without_plugin_options
from ace.plugins import CommandSpec
from ace.plugins.loading import load_hooks

__all__ = ["build_app", "run"]

HELP = "ACE: AI agents learn from their own runs."
EPILOGUE = (
    "--no-plugins works without any plugin, -P no:NAME without one of them.\n\n"
    "Exit codes: 0 done, 1 done with failures, 2 wrong usage, 130 interrupted."
)


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
        help_epilogue=EPILOGUE,
        # Markdown joins the lines of a paragraph, and takes a moment to load; the list of commands needs none.
        help_format="markdown" if arguments[:1] and not arguments[0].startswith("-") else "plaintext",
        version=lambda: f"ace {ace.__version__}",
        version_format="plaintext",
        suppress_keyboard_interrupt=False,  # `exit_code_of` says what happened
    )
    built_in = load_hooks(command_table, "ace", "ace-core", own_names=False).specs_of(CommandSpec)
    for spec in built_in:
        app.command(spec.target, name=spec.name, help=None if spec.name in arguments[:1] else spec.summary)
    add_plugin_commands(app, arguments, {spec.name for spec in built_in})
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: What follows `ace`.

    Returns:
        The exit code.
    """
    try:
        own = without_plugin_options(arguments, os.environ)
        app = build_app(own)
        result = app(own, exit_on_error=False, print_error=False, help_on_error=False, result_action="return_value")
    except CycloptsError as error:
        print_error(_usage_sentence(error))
        return WRONG_USAGE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except BaseException as error:
        code = exit_code_of(error)
        if code is None:
            raise
        return code
    return result if isinstance(result, int) else 0


def _usage_sentence(error: CycloptsError) -> str:
    """Return what cyclopts says, on one line, and where help is."""
    said = " ".join(str(error).split())
    called = " ".join(("ace", *(error.command_chain or ())))
    return f"{said if said.endswith('...') else said.rstrip('.')}; `{called} --help` lists what there is"
