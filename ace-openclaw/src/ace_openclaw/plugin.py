"""The hooks of the plugin `openclaw`. The targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, LogReaderSpec, RunnerSpec, TraceConverterSpec, hookimpl

__all__ = ["ACE_API", "ace_commands", "ace_log_readers", "ace_runners", "ace_trace_converters"]

ACE_API = 1


@hookimpl
def ace_trace_converters() -> Iterator[TraceConverterSpec]:
    """Yield the step that converts sessions."""
    yield TraceConverterSpec(
        name="openclaw",
        target="ace_openclaw.to_trace:OpenClawToTrace",
        accepts="ace_openclaw.reading.session:StoredSession",
        summary="Convert sessions of OpenClaw to traces",
    )


@hookimpl
def ace_log_readers() -> Iterator[LogReaderSpec]:
    """Yield the reader of sessions in all their forms."""
    yield LogReaderSpec(
        name="openclaw", target="ace_openclaw.logs:OpenClawLogs", summary="Read stored sessions of OpenClaw"
    )


@hookimpl
def ace_runners() -> Iterator[RunnerSpec]:
    """Yield the runner."""
    yield RunnerSpec(
        name="openclaw",
        target="ace_openclaw.runner:OpenClaw",
        summary="Learn from the stored sessions of OpenClaw",
    )


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace openclaw`."""
    yield CommandSpec(
        name="openclaw",
        target="ace_openclaw.commands:app",
        summary="Learn from the sessions of OpenClaw",
    )
