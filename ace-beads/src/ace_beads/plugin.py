"""The hooks of the plugin `beads`. Targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, hookimpl

__all__ = ["ACE_API", "ace_commands"]

ACE_API = 1


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace beads`."""
    yield CommandSpec(
        name="beads",
        target="ace_beads.commands:app",
        summary="Close issues of beads when their tests pass, and learn from them",
    )
