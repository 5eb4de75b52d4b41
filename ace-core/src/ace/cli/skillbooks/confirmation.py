"""Asks before something is changed that the user may want to keep."""

from __future__ import annotations

from ace.cli.errors import UsageError
from ace.cli.questions import can_ask, says_yes

__all__ = ["ask"]


def ask(what: str, *, assume_yes: bool) -> None:
    """Ask for confirmation, and return if the user says yes.

    Args:
        what: What will be done, as a sentence without a capital letter or a full stop.
        assume_yes: Whether `--yes` was given, so that there is no question.

    Raises:
        UsageError: The user said no, or there is no terminal to ask at.
    """
    if assume_yes:
        return
    if not can_ask():
        raise UsageError(f"{what}; there is no terminal to ask at, so nothing was changed: add --yes")
    if not says_yes(f"{what}; continue?"):
        raise UsageError("nothing was changed")
