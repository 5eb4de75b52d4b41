"""The hook of the plugin `view`, the second of this distribution: a plugin provides one command, with its own name."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, hookimpl

__all__ = ["ACE_API", "ace_commands"]

ACE_API = 1


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace view`."""
    yield CommandSpec(
        name="view",
        target="ace_server.view:command",
        summary="Show a skillbook in the browser",
    )
