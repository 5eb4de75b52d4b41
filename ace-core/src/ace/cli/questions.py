"""Asks the person at the terminal."""

from __future__ import annotations

import sys

from ace.cli.console import is_terminal, note

__all__ = ["can_ask", "says_yes"]


def can_ask() -> bool:
    """Tell whether there is somebody to ask: who sees what is written to standard error, and can answer."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def says_yes(question: str) -> bool:
    """Ask, and tell whether the answer was yes; anything else is a no.

    Args:
        question: The question.
    """
    note(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
