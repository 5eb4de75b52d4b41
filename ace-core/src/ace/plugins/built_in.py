"""What ace itself provides through the same hooks as plugins: stores, clients, embedders and trace converters."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins.hooks import hookimpl
from ace.plugins.specs import EmbedderSpec, LLMClientSpec, StoreSpec, TraceConverterSpec

__all__ = ["ACE_API", "ace_embedders", "ace_llm_clients", "ace_stores", "ace_trace_converters"]

ACE_API = 1


@hookimpl
def ace_stores() -> Iterator[StoreSpec]:
    """Yield SQLite."""
    yield StoreSpec(
        name="sqlite",
        target="ace.skillbook.sqlite_store:SqliteStore",
        suffixes=(".db", ".sqlite", ".sqlite3"),
        summary="Skillbooks with history in one file on a local disk",
    )


@hookimpl
def ace_llm_clients() -> Iterator[LLMClientSpec]:
    """Yield the client for models on this machine: `local/` and a name of the catalogue or the path of a GGUF file."""
    yield LLMClientSpec(
        name="local",
        target="ace.providers.local.client:client_of_model_string",
        summary="Models on this machine, with ace-core[local]",
    )


@hookimpl
def ace_embedders() -> Iterator[EmbedderSpec]:
    """Yield the embedding models that LiteLLM supports, and local word vectors, which do not need a key."""
    yield EmbedderSpec(
        name="litellm",
        target="ace.providers.embedders:LiteLLMEmbedder",
        summary="Vectors of any embedding model that LiteLLM supports",
    )
    yield EmbedderSpec(
        name="local",
        target="ace.providers.embedders:WordLlamaEmbedder",
        summary="Word vectors on this machine, with ace-core[embeddings]",
    )


@hookimpl
def ace_trace_converters() -> Iterator[TraceConverterSpec]:
    """Yield the converters of OpenTelemetry spans, the common format of all frameworks, and of the trace log."""
    yield TraceConverterSpec(
        name="otlp",
        target="ace.otlp:OtlpToTrace",
        recognises="ace.otlp:recognise",
        parts="ace.otlp:parts_of",
        summary="Read exports of OpenTelemetry spans with GenAI or OpenInference attributes",
    )
    yield TraceConverterSpec(
        name="execution_trace",
        target="ace.trace_log:ExecutionToTrace",
        recognises="ace.trace_log:recognise",
        parts="ace.trace_log:parts_of",
        place="ace.trace_log:place_of",
        summary="Read the log of attempts at tasks that `ace capture` writes",
    )
