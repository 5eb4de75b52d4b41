"""The table of the built-in commands, in the form of the commands of plugins; help imports no command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ace.plugins import CommandSpec

__all__ = ["WORDS_FOR_FLAGS", "ace_commands", "built_in_names", "built_in_summaries"]

_BUILT_IN: Sequence[tuple[str, str, str]] = (
    ("learn", "command", "Learn from recorded traces."),
    ("inspect", "command", "Show what is in logs, without a model."),
    ("ask", "command", "Answer a question with the skills in the prompt."),
    ("train", "command", "Answer samples with an agent, and learn from the results."),
    ("eval", "command", "Compare accuracy with and without the skills."),
    ("review", "command", "Go through the pending skills, and accept or reject them."),
    ("undo", "command", "Undo the acceptance or rejection of skills."),
    ("capture", "command", "Record an attempt at a task, to learn from it."),
    ("status", "command", "Show the skills, the last attempts at tasks, and pending insights."),
    ("get", "app", "Print the skills, or the insights from attempts at tasks."),
    ("config", "command", "Show the settings and where each one comes from."),
    ("doctor", "command", "Check the installation, the model and the skillbook."),
    ("completion", "command", "Print the completion script for a shell."),
    ("models", "app", "List, download and check models that run on this machine."),
    ("plugins", "app", "List and check the installed plugins, or create a new one."),
    ("skillbook", "app", "Show, edit, import and export skills and their history."),
)
WORDS_FOR_FLAGS: Final[Mapping[str, str]] = {"help": "--help", "version": "--version"}
"""What may be written instead of an option: `ace help learn` for `ace learn --help`."""


def ace_commands() -> Iterator[CommandSpec]:
    """Return the built-in commands.

    Example:
        >>> "completion" in [spec.name for spec in ace_commands()]
        True
    """
    from ace.plugins import CommandSpec  # the overview of all commands does not need it

    for name, attribute, summary in _BUILT_IN:
        yield CommandSpec(name=name, target=f"ace.cli.commands.{name}:{attribute}", summary=summary)


def built_in_summaries() -> dict[str, str]:
    """Return what each command does, by name."""
    return {name: summary for name, _, summary in sorted(_BUILT_IN)}


def built_in_names() -> set[str]:
    """Return the names that commands of plugins cannot have.

    Example:
        >>> "learn" in built_in_names()
        True
    """
    return {*(name for name, _, _ in _BUILT_IN), *WORDS_FOR_FLAGS}
