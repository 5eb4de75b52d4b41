"""The hooks of this integration. They only declare what it provides; nothing of browser-use is imported."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import ExecuteStepSpec, LogReaderSpec, RunnerSpec, TraceConverterSpec, hookimpl
from ace_browser_use.framework import REQUIREMENT

__all__ = ["ACE_API", "ace_execute_steps", "ace_log_readers", "ace_runners", "ace_trace_converters"]

ACE_API = 1

_FRAMEWORK = (REQUIREMENT,)


@hookimpl
def ace_execute_steps() -> Iterator[ExecuteStepSpec]:
    """Yield the step that runs browser agents."""
    yield ExecuteStepSpec(
        name="browser_use",
        target="ace_browser_use.execute:BrowserExecuteStep",
        produces="ace_browser_use.result:BrowserResult",
        is_async=True,
        requires=_FRAMEWORK,
        summary="Do tasks in a browser, with a browser-use agent that sees the skills",
    )


@hookimpl
def ace_trace_converters() -> Iterator[TraceConverterSpec]:
    """Yield the converter of results and histories."""
    yield TraceConverterSpec(
        name="browser_use",
        target="ace_browser_use.to_trace:BrowserToTrace",
        accepts="ace_browser_use.result:BrowserResult",
        summary="Convert results and histories of browser-use to traces",
    )


@hookimpl
def ace_log_readers() -> Iterator[LogReaderSpec]:
    """Yield the reader of stored histories."""
    yield LogReaderSpec(
        name="browser_use", target="ace_browser_use.logs:BrowserLogs", summary="Read stored histories of browser-use"
    )


@hookimpl
def ace_runners() -> Iterator[RunnerSpec]:
    """Yield the runner."""
    yield RunnerSpec(
        name="browser_use",
        target="ace_browser_use.runner:BrowserUse",
        requires=_FRAMEWORK,
        summary="Browser agents that learn from their own runs",
    )
