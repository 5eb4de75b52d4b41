"""ACE: AI agents learn from their own runs.

Importing ``ace`` loads nothing else; the parts are imported where they are used.

Example:
    >>> import ace
    >>> ace.__version__.count(".")
    2
"""

from ace._internal.lazy_exports import lazy_exports as _lazy_exports

# Type checkers take it for true; importing it from `typing` would load a dozen modules.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ace.context import (
        ACESample,
        ACEStepContext,
        SkillbookView,
    )
    from ace.deduplication import (
        DeduplicationManager,
    )
    from ace.environments import (
        EnvironmentResult,
        HeuristicEnvironment,
        Sample,
        SimpleEnvironment,
        TaskEnvironment,
    )
    from ace.evaluation import (
        Evaluator,
    )
    from ace.logs import (
        read_runs,
        read_trace,
    )
    from ace.outputs import (
        AgentOutput,
        ExtractedLearning,
        Judgement,
        ReflectorOutput,
        SkillManagerOutput,
        SkillTag,
    )
    from ace.pipeline import (
        Branch,
        CancellationToken,
        MergeStrategy,
        Pipeline,
        PipelineCancelled,
        PipelineConfigError,
        PipelineError,
        PipelineHook,
        PipelineOrderError,
        SampleResult,
        StepContext,
        StepProtocol,
        cancel_token_var,
    )
    from ace.protocols import (
        AgentLike,
        AsyncLLMClientLike,
        DeduplicationConfig,
        LLMAuthenticationError,
        LLMCallError,
        LLMClientLike,
        LLMError,
        LLMResponse,
        ReflectorLike,
        RoleError,
        SkillManagerLike,
        UnusableAnswerError,
        Usage,
    )
    from ace.providers import (
        InstructorClient,
        LiteLLMClient,
        LiteLLMConfig,
        WordLlamaEmbedder,
        wrap_with_instructor,
    )
    from ace.providers.local import (
        LocalLLMClient,
    )
    from ace.redaction import Redactor, redact
    from ace.retrieval import (
        TopSkills,
        VectorRanker,
    )
    from ace.roles import (
        Agent,
        Reflector,
        SkillManager,
    )
    from ace.roles.prompts import (
        wrap_skillbook_context,
        wrap_skillbook_for_external_agent,
    )
    from ace.runners import (
        ACE,
        ACELiteLLM,
        ACERunner,
        FailedSample,
        IntegrationRunner,
        RecordedTrace,
        TraceAnalyser,
        TraceGroup,
    )
    from ace.skill import (
        CaseCheck,
        InsightSource,
        Skill,
        SkillCase,
        extract_cited_skill_ids,
    )
    from ace.skillbook import (
        Skillbook,
        SkillbookChangedError,
    )
    from ace.steps import (
        AgentStep,
        ApplyStep,
        CheckpointStep,
        DeduplicateStep,
        EvaluateStep,
        ExportSkillbookMarkdownStep,
        LeakageGuard,
        LoadTracesStep,
        ObservabilityStep,
        PersistStep,
        ReflectStep,
        TagStep,
        UpdateStep,
        learning_tail,
    )
    from ace.updates import (
        UpdateBatch,
        UpdateOperation,
    )

__all__ = [
    "ACE",
    "ACELiteLLM",
    "ACERunner",
    "ACESample",
    "ACEStepContext",
    "Agent",
    "AgentLike",
    "AgentOutput",
    "AgentStep",
    "Answer",
    "ApplyStep",
    "AsyncLLMClientLike",
    "Branch",
    "CancellationToken",
    "CaseCheck",
    "CheckpointStep",
    "DeduplicateStep",
    "DeduplicationConfig",
    "DeduplicationManager",
    "EnvironmentResult",
    "EvaluateStep",
    "Evaluator",
    "ExportSkillbookMarkdownStep",
    "ExtractedLearning",
    "FailedSample",
    "HeuristicEnvironment",
    "InsightSource",
    "InstructorClient",
    "IntegrationRunner",
    "Judgement",
    "LLMAuthenticationError",
    "LLMCallError",
    "LLMClientLike",
    "LLMError",
    "LLMResponse",
    "LeakageGuard",
    "LiteLLMClient",
    "LiteLLMConfig",
    "LoadTracesStep",
    "LocalLLMClient",
    "MergeStrategy",
    "ObservabilityStep",
    "PersistStep",
    "Pipeline",
    "PipelineCancelled",
    "PipelineConfigError",
    "PipelineError",
    "PipelineHook",
    "PipelineOrderError",
    "RecordedTrace",
    "Redactor",
    "ReflectStep",
    "Reflector",
    "ReflectorLike",
    "ReflectorOutput",
    "RoleError",
    "Sample",
    "SampleResult",
    "SimpleEnvironment",
    "Skill",
    "SkillCase",
    "SkillManager",
    "SkillManagerLike",
    "SkillManagerOutput",
    "SkillTag",
    "Skillbook",
    "SkillbookChangedError",
    "SkillbookView",
    "StepContext",
    "StepProtocol",
    "TagStep",
    "TaskEnvironment",
    "TopSkills",
    "TraceAnalyser",
    "TraceGroup",
    "UnusableAnswerError",
    "UpdateBatch",
    "UpdateOperation",
    "UpdateStep",
    "Usage",
    "VectorRanker",
    "WordLlamaEmbedder",
    "__version__",
    "cancel_token_var",
    "extract_cited_skill_ids",
    "learning_tail",
    "read_runs",
    "read_trace",
    "redact",
    "wrap_skillbook_context",
    "wrap_skillbook_for_external_agent",
    "wrap_with_instructor",
]

__version__: str
"""The version of the installed distribution ``ace-core``."""

_find, __dir__ = _lazy_exports(
    "ace",
    {
        "ACE": "runners",
        "ACELiteLLM": "runners",
        "Answer": "runners",
        "ACERunner": "runners",
        "ACESample": "context",
        "ACEStepContext": "context",
        "Agent": "roles",
        "AgentLike": "protocols",
        "AgentOutput": "outputs",
        "AgentStep": "steps",
        "ApplyStep": "steps",
        "AsyncLLMClientLike": "protocols",
        "Branch": "pipeline",
        "CancellationToken": "pipeline",
        "CheckpointStep": "steps",
        "DeduplicateStep": "steps",
        "DeduplicationConfig": "protocols",
        "DeduplicationManager": "deduplication",
        "EnvironmentResult": "environments",
        "EvaluateStep": "steps",
        "Evaluator": "evaluation",
        "ExportSkillbookMarkdownStep": "steps",
        "ExtractedLearning": "outputs",
        "FailedSample": "runners",
        "HeuristicEnvironment": "environments",
        "CaseCheck": "skill",
        "InsightSource": "skill",
        "SkillCase": "skill",
        "InstructorClient": "providers",
        "IntegrationRunner": "runners",
        "LLMAuthenticationError": "protocols",
        "LLMCallError": "protocols",
        "LLMClientLike": "protocols",
        "LLMError": "protocols",
        "LLMResponse": "protocols",
        "LiteLLMClient": "providers",
        "LiteLLMConfig": "providers",
        "LeakageGuard": "steps",
        "LoadTracesStep": "steps",
        "LocalLLMClient": "providers.local",
        "MergeStrategy": "pipeline",
        "ObservabilityStep": "steps",
        "PersistStep": "steps",
        "Pipeline": "pipeline",
        "PipelineCancelled": "pipeline",
        "PipelineConfigError": "pipeline",
        "PipelineError": "pipeline",
        "PipelineHook": "pipeline",
        "PipelineOrderError": "pipeline",
        "RecordedTrace": "runners",
        "Redactor": "redaction",
        "ReflectStep": "steps",
        "Reflector": "roles",
        "ReflectorLike": "protocols",
        "Judgement": "outputs",
        "ReflectorOutput": "outputs",
        "RoleError": "protocols",
        "Sample": "environments",
        "SampleResult": "pipeline",
        "SimpleEnvironment": "environments",
        "Skill": "skill",
        "SkillManager": "roles",
        "SkillManagerLike": "protocols",
        "SkillManagerOutput": "outputs",
        "SkillTag": "outputs",
        "Skillbook": "skillbook",
        "SkillbookChangedError": "skillbook",
        "SkillbookView": "context",
        "StepContext": "pipeline",
        "StepProtocol": "pipeline",
        "TagStep": "steps",
        "TaskEnvironment": "environments",
        "TopSkills": "retrieval",
        "TraceAnalyser": "runners",
        "TraceGroup": "runners",
        "UnusableAnswerError": "protocols",
        "UpdateBatch": "updates",
        "UpdateOperation": "updates",
        "UpdateStep": "steps",
        "Usage": "protocols",
        "VectorRanker": "retrieval",
        "WordLlamaEmbedder": "providers",
        "cancel_token_var": "pipeline",
        "extract_cited_skill_ids": "skill",
        "learning_tail": "steps",
        "read_runs": "logs",
        "read_trace": "logs",
        "redact": "redaction",
        "wrap_skillbook_context": "roles.prompts",
        "wrap_skillbook_for_external_agent": "roles.prompts",
        "wrap_with_instructor": "providers",
    },
)

_PACKAGES = frozenset(
    {
        "calls",
        "cases",
        "cli",
        "context",
        "deduplication",
        "environments",
        "evaluation",
        "implementations",
        "integrations",
        "logs",
        "loop",
        "outputs",
        "pipeline",
        "plugins",
        "proof",
        "protocols",
        "providers",
        "redaction",
        "retrieval",
        "roles",
        "rr",
        "runners",
        "skill",
        "skillbook",
        "steps",
        "testing",
        "traces",
        "updates",
    }
)

_INTEGRATIONS = {
    "BrowserUse": "browser_use",
    "ClaudeCode": "claude_code",
    "LangChain": "langchain",
    "OpenClaw": "openclaw",
}


def __getattr__(name: str) -> object:
    """Import a part of ``ace`` when it is first used.

    Args:
        name: The name of the attribute.

    Returns:
        The version, or a part of ``ace``.

    Raises:
        AttributeError: ``ace`` has no such attribute.
        ImportError: It is the runner of an integration that is not installed.
    """
    # Imported here: importlib alone would more than double what `import ace` loads.
    if name == "__version__":
        from importlib.metadata import version

        return version("ace-core")
    if name in _PACKAGES:
        from importlib import import_module

        return import_module(f"ace.{name}")
    if name in _INTEGRATIONS:
        return _integration(name)
    return _find(name)


def _integration(name: str) -> object:
    from ace.plugins import UnknownPluginError, get_runner

    try:
        runner: object = get_runner(_INTEGRATIONS[name])
    except UnknownPluginError as error:
        raise ImportError(f"ace.{name}: {error}") from error
    return runner
