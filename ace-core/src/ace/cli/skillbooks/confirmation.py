"""Asks before something is changed that the user may want to keep."""

from __future__ import annotations

from ace.cli.errors import UsageError
from ace.cli.questions import can_ask, says_yes

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
    if not can_ask():
        raise UsageError(f"{what}; there is no terminal to ask at, so nothing was changed: add --yes")
    if not says_yes(f"{what}; go on?"):
        raise UsageError("nothing was changed")
