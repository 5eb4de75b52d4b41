"""The hooks of the plugin `sleep`. Targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, SkillbooksSpec, hookimpl

__all__ = ["ACE_API", "ace_commands", "ace_skillbooks"]

ACE_API = 1


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace sleep`."""
    yield CommandSpec(
        name="sleep",
        target="ace_sleep.commands:app",
        summary="Find lessons in the sessions of your coding agents, and prove them by running",
    )


@hookimpl
def ace_skillbooks() -> Iterator[SkillbooksSpec]:
    """Yield the lessons of the repository that a folder is in."""
    yield SkillbooksSpec(name="sleep", target="ace_sleep.publishing:skillbooks_of", summary="Lessons of `ace sleep`")
