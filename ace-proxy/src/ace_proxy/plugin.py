"""The hooks of the plugin `proxy`. Targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, LogReaderSpec, hookimpl

__all__ = ["ACE_API", "ace_commands", "ace_log_readers"]

ACE_API = 1


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace proxy`."""
    yield CommandSpec(
        name="proxy",
        target="ace_proxy.commands:proxy",
        summary="Let any agent learn by sending its model calls through one address",
    )


@hookimpl
def ace_log_readers() -> Iterator[LogReaderSpec]:
    """Yield the reader of recorded conversations."""
    yield LogReaderSpec(
        name="proxy",
        target="ace_proxy.reader:ProxyLogs",
        summary="Read the conversations that ace proxy has recorded",
    )
