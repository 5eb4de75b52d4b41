"""What roles, clients and managers must look like, and the registries that plugins fill."""

from ace.protocols.agent import AgentLike, ShowsSkills
from ace.protocols.answer_budget import AnswerBudget, answer_budget, current_answer_budget
from ace.protocols.calling import BLOCKING, ON_LOOP, Calling, finished, own_twin, within_seconds
from ace.protocols.deduplication import (
    AsksSkillManagerLike,
    CaseOutcomeLike,
    CaseProverLike,
    DeduplicationConfig,
    DeduplicationManagerLike,
    EmbedderLike,
    ProvesMergesLike,
    SkillConsolidatorLike,
)
from ace.protocols.embedders import (
    EmbedderFactory,
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
from ace.protocols.model_calls import CallScope, call_scope, current_call_scope, note_model_call
from ace.protocols.model_prefixes import (
    ModelClientFactory,
    find_model_prefix,
    model_prefixes,
    register_model_prefix,
    unregister_model_prefix,
)
from ace.protocols.recorded_answers import RecordedAnswers
from ace.protocols.redaction import redactor_for
from ace.protocols.reflector import ReflectorLike
from ace.protocols.skill_manager import SkillManagerLike
from ace.protocols.skillbook import SkillbookReader
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
    "BLOCKING",
    "ON_LOOP",
    "AgentLike",
    "AmbiguousTraceError",
    "AnswerBudget",
    "AnyLLMClient",
    "AsksSkillManagerLike",
    "AsyncLLMClientLike",
    "CallScope",
    "Calling",
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
    "RecordedAnswers",
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
    "answer_budget",
    "call_scope",
    "converted_trace",
    "current_answer_budget",
    "current_call_scope",
    "embedder_names",
    "find_embedder",
    "find_model_prefix",
    "find_trace_converter",
    "finished",
    "model_prefixes",
    "note_model_call",
    "own_twin",
    "redactor_for",
    "register_embedder",
    "register_model_prefix",
    "register_trace_converter",
    "trace_converters",
    "unregister_embedder",
    "unregister_model_prefix",
    "unregister_trace_converter",
    "within_seconds",
]
