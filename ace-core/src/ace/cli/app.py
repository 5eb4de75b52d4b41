"""Puts the commands together, runs one, and turns what it raises into a sentence and an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cyclopts import App, CycloptsError

import ace
from ace.cli.command_table import CommandRow, built_in_commands
from ace.cli.errors import WRONG_USAGE, exit_code_of, print_error

__all__ = ["build_app", "run"]

HELP = "ACE: AI agents learn from their own runs."
EPILOGUE = "Exit codes: 0 done, 1 done with failures, 2 wrong usage, 130 interrupted."


def build_app(commands: Iterable[CommandRow] | None = None) -> App:
    """Return the app with all commands; none of their modules is imported.

    Args:
        commands: The rows of the table; by default the built-in ones.
    """
    app = App(
        name="ace",
        help=HELP,
        help_epilogue=EPILOGUE,
        help_format="plaintext",
        version=lambda: f"ace {ace.__version__}",
        version_format="plaintext",
    )
    for row in built_in_commands() if commands is None else commands:
        app.command(row.target, name=row.name, help=row.summary)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: What follows `ace`.

    Returns:
        The exit code.
    """
    try:
        app = build_app()
        result = app(
            list(arguments), exit_on_error=False, print_error=False, help_on_error=False, result_action="return_value"
        )
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
    return f"{said.rstrip('.')}; `{called} --help` lists what there is"
