"""The protocols of roles, clients and managers, their errors and events, and the registries that plugins fill."""

from ace.lazy_exports import lazy_exports
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
from ace.protocols.gate import GateLike, GateVerdict
from ace.protocols.llm import (
    AnyLLMClient,
    AsyncLLMClientLike,
    LayeredPrompt,
    LLMClientLike,
    LLMResponse,
    ModelClientFactory,
    StructuredAnswer,
    Usage,
    find_model_prefix,
    model_prefixes,
    register_model_prefix,
    unregister_model_prefix,
)
from ace.protocols.roles import (
    AgentLike,
    ReflectorLike,
    ShowsSkills,
    SkillbookReader,
    SkillManagerLike,
    UpdatesTogetherLike,
)
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
    "GateLike",
    "GateVerdict",
    "LLMAuthenticationError",
    "LLMCallError",
    "LLMClientLike",
    "LLMError",
    "LLMResponse",
    "LayeredPrompt",
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
    "UpdatesTogetherLike",
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

_IN_CALLS = (
    *("AnswerBudget", "BLOCKING", "CallScope", "Calling", "ON_LOOP", "RecordedAnswers", "answer_budget", "call_scope"),
    *("current_answer_budget", "current_call_scope", "finished", "note_model_call", "own_twin", "redactor_for"),
    "within_seconds",
)
"""Names that have moved to `ace.calls`."""

__getattr__, __dir__ = lazy_exports(__name__, {}, old_names={name: f"ace.calls.{name}" for name in _IN_CALLS})
