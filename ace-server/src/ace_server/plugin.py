"""The hooks of the plugin `server`. Targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, hookimpl

__all__ = ["ACE_API", "ace_commands"]

ACE_API = 1


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace server`."""
    yield CommandSpec(
        name="server",
        target="ace_server.commands:app",
        summary="Serve answers with learned skills over HTTP",
    )
