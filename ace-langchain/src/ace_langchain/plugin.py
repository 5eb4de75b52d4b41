"""The hooks of this integration. They only declare what it provides; nothing of LangChain is imported."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import ExecuteStepSpec, LLMClientSpec, LogReaderSpec, RunnerSpec, TraceConverterSpec, hookimpl
from ace_langchain.framework import REQUIREMENT

__all__ = [
    "ACE_API",
    "ace_execute_steps",
    "ace_llm_clients",
    "ace_log_readers",
    "ace_runners",
    "ace_trace_converters",
]

ACE_API = 1

_FRAMEWORK = (REQUIREMENT,)


@hookimpl
def ace_execute_steps() -> Iterator[ExecuteStepSpec]:
    """Yield the step that runs chains, agents and graphs."""
    yield ExecuteStepSpec(
        name="langchain",
        target="ace_langchain.execute:LangChainExecuteStep",
        produces="ace_langchain.result:LangChainResult",
        is_async=True,
        requires=_FRAMEWORK,
        summary="Run LangChain chains and agents and LangGraph graphs with the skills in the prompt",
    )


@hookimpl
def ace_trace_converters() -> Iterator[TraceConverterSpec]:
    """Yield the converter of results."""
    yield TraceConverterSpec(
        name="langchain",
        target="ace_langchain.to_trace:LangChainToTrace",
        accepts="ace_langchain.result:LangChainResult",
        summary="Convert results and records of LangChain and LangGraph to traces",
    )


@hookimpl
def ace_log_readers() -> Iterator[LogReaderSpec]:
    """Yield the reader of stored records."""
    yield LogReaderSpec(
        name="langchain",
        target="ace_langchain.logs:LangChainLogs",
        summary="Read stored conversations, states and recorded runs of LangChain and LangGraph",
    )


@hookimpl
def ace_runners() -> Iterator[RunnerSpec]:
    """Yield the runner."""
    yield RunnerSpec(
        name="langchain",
        target="ace_langchain.runner:LangChain",
        requires=_FRAMEWORK,
        summary="Chains, agents and graphs that learn from their own runs",
    )


@hookimpl
def ace_llm_clients() -> Iterator[LLMClientSpec]:
    """Yield the client, reached as `langchain/...` with a model string of LangChain."""
    yield LLMClientSpec(
        name="langchain",
        target="ace_langchain.llm_client:LangChainLLMClient",
        requires=_FRAMEWORK,
        summary="Any chat model of LangChain",
    )
