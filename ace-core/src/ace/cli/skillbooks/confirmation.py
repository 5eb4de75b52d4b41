"""Asks before something is changed that the user may want to keep."""

from __future__ import annotations

import sys

from ace.cli.console import is_terminal, note
from ace.cli.errors import UsageError

__all__ = ["ask"]


def ask(what: str, *, assume_yes: bool) -> None:
    """Go on if the user says yes.

    Args:
        what: What will be done, as a sentence without a capital letter or a stop.
        assume_yes: Whether `--yes` was given, so that nobody is asked.

    Raises:
        UsageError: The user said no, or nobody can be asked.
    """
    if assume_yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError(f"{what}; there is no terminal to ask at, so nothing was changed: add --yes")
    note(f"{what}; go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was changed")
