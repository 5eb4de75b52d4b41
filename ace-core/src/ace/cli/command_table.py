"""The table of the built-in commands, given through the hook that plugins use. Help needs none of their modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ace.plugins import CommandSpec, hookimpl

__all__ = ["ACE_API", "ace_commands"]

ACE_API = 1

_BUILT_IN: Sequence[tuple[str, str, str]] = (
    ("learn", "command", "Learn from recorded traces."),
    ("ask", "command", "Answer a question with the skills of a skillbook."),
    ("train", "command", "Let an agent answer samples, and learn from how it did."),
    ("eval", "command", "Measure what the skills are worth, without and with them."),
    ("config", "command", "Show each setting and where it comes from."),
    ("completion", "command", "Print the completion script for a shell."),
    ("models", "app", "List, fetch and check the models that run on this machine."),
    ("plugins", "app", "List the plugins that are installed, and check them."),
    ("skillbook", "app", "Show, edit, add and remove skills; see and roll back their history; import and export them."),
)


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Give the commands.

    Example:
        >>> "completion" in [spec.name for spec in ace_commands()]
        True
    """
    for name, attribute, summary in _BUILT_IN:
        yield CommandSpec(name=name, target=f"ace.cli.commands.{name}:{attribute}", summary=summary)
