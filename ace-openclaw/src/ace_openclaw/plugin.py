"""The hooks of the plugin `openclaw`. Light: the targets are imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import TraceConverterSpec, hookimpl

__all__ = ["ACE_API", "ace_trace_converters"]

ACE_API = 1


@hookimpl
def ace_trace_converters() -> Iterator[TraceConverterSpec]:
    """Yield the step that reads sessions in all their forms."""
    yield TraceConverterSpec(
        name="openclaw",
        target="ace_openclaw.to_trace:OpenClawToTraceStep",
        accepts="ace_openclaw.result:OpenClawResult",
        recognises="ace_openclaw.recognise:score",
        summary="Read sessions of OpenClaw",
    )
