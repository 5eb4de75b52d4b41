"""What roles, clients and managers have to offer, their errors and events, and the registries that plugins fill."""

from ace.protocols.deduplication import (
    AsksSkillManagerLike,
    CaseOutcomeLike,
    CaseProverLike,
    DeduplicationConfig,
    DeduplicationManagerLike,
    EmbedderFactory,
    EmbedderLike,
    ProvesMergesLike,
    SkillConsolidatorLike,
    embedder_names,
    find_embedder,
    register_embedder,
    unregister_embedder,
)
from ace.protocols.errors import (
    EmptyAnswerError,
    LLMAuthenticationError,
    LLMCallError,
    LLMError,
    RoleError,
    UnusableAnswerError,
)
from ace.protocols.llm import AnyLLMClient, AsyncLLMClientLike, LLMClientLike, LLMResponse, StructuredAnswer, Usage
from ace.protocols.model_prefixes import (
    ModelClientFactory,
    find_model_prefix,
    model_prefixes,
    register_model_prefix,
    unregister_model_prefix,
)
from ace.protocols.roles import AgentLike, ReflectorLike, ShowsSkills, SkillbookReader, SkillManagerLike
from ace.protocols.trace_converters import (
    AmbiguousTraceError,
    TraceConversionError,
    TraceConverter,
    converted_trace,
    find_trace_converter,
    register_trace_converter,
    trace_converters,
    unregister_trace_converter,
)

__all__ = [
    "AgentLike",
    "AmbiguousTraceError",
    "AnyLLMClient",
    "AsksSkillManagerLike",
    "AsyncLLMClientLike",
    "CaseOutcomeLike",
    "CaseProverLike",
    "DeduplicationConfig",
    "DeduplicationManagerLike",
    "EmbedderFactory",
    "EmbedderLike",
    "EmptyAnswerError",
    "LLMAuthenticationError",
    "LLMCallError",
    "LLMClientLike",
    "LLMError",
    "LLMResponse",
    "ModelClientFactory",
    "ProvesMergesLike",
    "ReflectorLike",
    "RoleError",
    "ShowsSkills",
    "SkillConsolidatorLike",
    "SkillManagerLike",
    "SkillbookReader",
    "StructuredAnswer",
    "TraceConversionError",
    "TraceConverter",
    "UnusableAnswerError",
    "Usage",
    "converted_trace",
    "embedder_names",
    "find_embedder",
    "find_model_prefix",
    "find_trace_converter",
    "model_prefixes",
    "register_embedder",
    "register_model_prefix",
    "register_trace_converter",
    "trace_converters",
    "unregister_embedder",
    "unregister_model_prefix",
    "unregister_trace_converter",
]

_IN_CALLS = frozenset(
    {
        "AnswerBudget",
        "BLOCKING",
        "CallScope",
        "Calling",
        "ON_LOOP",
        "RecordedAnswers",
        "answer_budget",
        "call_scope",
        "current_answer_budget",
        "current_call_scope",
        "finished",
        "note_model_call",
        "own_twin",
        "redactor_for",
        "within_seconds",
    }
)
"""Names of `ace.calls`, which were here first."""


def __getattr__(name: str) -> object:
    if name not in _IN_CALLS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    import warnings

    warnings.warn(
        f"ace.protocols.{name} is in ace.calls now; the old name works until 0.2", DeprecationWarning, stacklevel=2
    )
    return getattr(importlib.import_module("ace.calls"), name)
