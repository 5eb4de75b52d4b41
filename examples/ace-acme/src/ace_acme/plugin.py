"""The hooks of the plugin `acme`. They only describe what it provides; the targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import ExecuteStepSpec, LogReaderSpec, TraceConverterSpec, hookimpl

ACE_API = 1


@hookimpl
def ace_execute_steps() -> Iterator[ExecuteStepSpec]:
    """Yield the step that runs agents."""
    yield ExecuteStepSpec(
        name="acme",
        target="ace_acme.execute:AcmeExecuteStep",
        produces="ace_acme.result:AcmeResult",
        is_async=True,
        requires=("acme-agent>=2,<3",),
        summary="Run tasks with Acme agents",
    )


@hookimpl
def ace_trace_converters() -> Iterator[TraceConverterSpec]:
    """Yield the converter of results, which does not need the framework."""
    yield TraceConverterSpec(
        name="acme",
        target="ace_acme.to_trace:AcmeToTrace",
        accepts="ace_acme.result:AcmeResult",
        summary="Convert what Acme agents did",
    )


@hookimpl
def ace_log_readers() -> Iterator[LogReaderSpec]:
    """Yield the reader of logs, which does not need the framework either."""
    yield LogReaderSpec(name="acme", target="ace_acme.logs:AcmeLogs", summary="Read the logs of Acme agents")
