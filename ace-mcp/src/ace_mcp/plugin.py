"""The hook of the plugin `mcp`. The target is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, hookimpl

__all__ = ["ACE_API", "ace_commands"]

ACE_API = 1


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace mcp`."""
    yield CommandSpec(
        name="mcp",
        target="ace_mcp.commands:app",
        summary="Serve the skillbook to MCP clients",
    )
