"""The table of the commands: names and summaries, so that help needs none of their modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

__all__ = ["CommandRow", "built_in_commands"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRow:
    """A command that is loaded when it is used."""

    name: str
    """What the user types, with hyphens."""
    target: str
    """Where it is: `package.module:attribute`, a typed function or a cyclopts `App` of the same name."""
    summary: str
    """One line for the help."""
    group: str = "Commands"
    """The heading in the help."""


_BUILT_IN: Sequence[tuple[str, str, str]] = (
    ("config", "command", "Show each setting and where it comes from."),
    ("completion", "command", "Print the completion script for a shell."),
    ("models", "app", "List, fetch and check the models that run on this machine."),
    ("skillbook", "app", "Look at a skillbook and its history, move skills in and out."),
)


def built_in_commands() -> list[CommandRow]:
    """Return the rows of the commands whose module is there.

    Example:
        >>> "completion" in [row.name for row in built_in_commands()]
        True
    """
    return [
        CommandRow(name=name, target=f"ace.cli.commands.{name}:{attribute}", summary=summary)
        for name, attribute, summary in _BUILT_IN
        if find_spec(f"ace.cli.commands.{name}") is not None
    ]
