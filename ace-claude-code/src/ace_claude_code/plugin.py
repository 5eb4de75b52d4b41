"""The hooks of the plugin `claude_code`. The targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import (
    CommandSpec,
    ExecuteStepSpec,
    LLMClientSpec,
    LogReaderSpec,
    RunnerSpec,
    TraceConverterSpec,
    hookimpl,
)

ACE_API = 1


@hookimpl
def ace_execute_steps() -> Iterator[ExecuteStepSpec]:
    """Yield the step that runs the binary."""
    yield ExecuteStepSpec(
        name="claude_code",
        target="ace_claude_code.execute:ClaudeCodeExecuteStep",
        produces="ace_claude_code.result:ClaudeCodeResult",
        is_async=True,
        summary="Run tasks with the claude binary",
    )


@hookimpl
def ace_trace_converters() -> Iterator[TraceConverterSpec]:
    """Yield the converter of results."""
    yield TraceConverterSpec(
        name="claude_code",
        target="ace_claude_code.to_trace:ClaudeCodeToTrace",
        accepts="ace_claude_code.result:ClaudeCodeResult",
        summary="Convert runs of Claude Code to traces",
    )


@hookimpl
def ace_log_readers() -> Iterator[LogReaderSpec]:
    """Yield the reader of stored sessions and streams."""
    yield LogReaderSpec(
        name="claude_code",
        target="ace_claude_code.logs:ClaudeCodeLogs",
        summary="Read stored sessions and streams of Claude Code",
    )


@hookimpl
def ace_runners() -> Iterator[RunnerSpec]:
    """Yield the runner."""
    yield RunnerSpec(
        name="claude_code",
        target="ace_claude_code.runner:ClaudeCode",
        summary="Claude Code does tasks and learns from them",
    )


@hookimpl
def ace_llm_clients() -> Iterator[LLMClientSpec]:
    """Yield the binary as a client of a language model: `claude_code/sonnet`."""
    yield LLMClientSpec(
        name="claude_code",
        target="ace_claude_code.llm_client:ClaudeCodeLLMClient",
        summary="Learn with the login of Claude Code instead of a key",
    )


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace claude-code`."""
    yield CommandSpec(
        name="claude_code",
        target="ace_claude_code.commands:app",
        summary="Learn from every session of Claude Code",
    )
