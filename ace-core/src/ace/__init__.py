"""ACE: AI agents learn from their own runs.

Importing ``ace`` loads nothing else; the parts are imported where they are used.

Example:
    >>> import ace
    >>> ace.__version__.count(".")
    2
"""

from ace.lazy_plugins import set_filler

# Type checkers take it for true; importing it from `typing` would load a dozen modules.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ace.context import ACEStepContext, SkillbookView
    from ace.environments import EnvironmentResult, Sample, SimpleEnvironment, TaskEnvironment
    from ace.implementations import Agent, Reflector, SkillManager
    from ace.pipeline import Branch, MergeStrategy, Pipeline, SampleResult, StepContext, StepProtocol
    from ace.providers import LiteLLMClient, wrap_with_instructor
    from ace.runners import ACE, ACELiteLLM, ACERunner, IntegrationRunner, TraceAnalyser
    from ace.skill import Skill
    from ace.skillbook import Skillbook
    from ace.steps import (
        AgentStep,
        ApplyStep,
        CheckpointStep,
        DeduplicateStep,
        EvaluateStep,
        ExportSkillbookMarkdownStep,
        LoadTracesStep,
        ObservabilityStep,
        PersistStep,
        ReflectStep,
        TagStep,
        UpdateStep,
        learning_tail,
    )
    from ace.updates import UpdateBatch, UpdateOperation

__all__ = [
    "ACE",
    "ACELiteLLM",
    "ACERunner",
    "ACEStepContext",
    "Agent",
    "AgentStep",
    "ApplyStep",
    "Branch",
    "CheckpointStep",
    "DeduplicateStep",
    "EnvironmentResult",
    "EvaluateStep",
    "ExportSkillbookMarkdownStep",
    "IntegrationRunner",
    "LiteLLMClient",
    "LoadTracesStep",
    "MergeStrategy",
    "ObservabilityStep",
    "PersistStep",
    "Pipeline",
    "ReflectStep",
    "Reflector",
    "Sample",
    "SampleResult",
    "SimpleEnvironment",
    "Skill",
    "SkillManager",
    "Skillbook",
    "SkillbookView",
    "StepContext",
    "StepProtocol",
    "TagStep",
    "TaskEnvironment",
    "TraceAnalyser",
    "UpdateBatch",
    "UpdateOperation",
    "UpdateStep",
    "__version__",
    "learning_tail",
    "wrap_with_instructor",
]

__version__: str
"""The version of the installed distribution ``ace-core``."""

_HOMES = {
    "ACE": "runners",
    "ACELiteLLM": "runners",
    "ACERunner": "runners",
    "ACEStepContext": "context",
    "Agent": "implementations",
    "AgentStep": "steps",
    "ApplyStep": "steps",
    "Branch": "pipeline",
    "CheckpointStep": "steps",
    "DeduplicateStep": "steps",
    "EnvironmentResult": "environments",
    "EvaluateStep": "steps",
    "ExportSkillbookMarkdownStep": "steps",
    "IntegrationRunner": "runners",
    "LiteLLMClient": "providers",
    "LoadTracesStep": "steps",
    "MergeStrategy": "pipeline",
    "ObservabilityStep": "steps",
    "PersistStep": "steps",
    "Pipeline": "pipeline",
    "ReflectStep": "steps",
    "Reflector": "implementations",
    "Sample": "environments",
    "SampleResult": "pipeline",
    "SimpleEnvironment": "environments",
    "Skill": "skill",
    "SkillManager": "implementations",
    "Skillbook": "skillbook",
    "SkillbookView": "context",
    "StepContext": "pipeline",
    "StepProtocol": "pipeline",
    "TagStep": "steps",
    "TaskEnvironment": "environments",
    "TraceAnalyser": "runners",
    "UpdateBatch": "updates",
    "UpdateOperation": "updates",
    "UpdateStep": "steps",
    "learning_tail": "steps",
    "wrap_with_instructor": "providers",
}

_PACKAGES = frozenset(
    {
        "cli",
        "collection_pause",
        "context",
        "deduplication",
        "durable_file",
        "environments",
        "evaluation",
        "implementations",
        "json_fields",
        "marked_block",
        "outputs",
        "pipeline",
        "plugins",
        "protocols",
        "providers",
        "redaction",
        "retrieval",
        "runners",
        "skill",
        "skillbook",
        "steps",
        "testing",
        "trace_heads",
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
    """Look up what is not loaded yet.

    Args:
        name: The attribute asked for.

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
    if name in _HOMES:
        from importlib import import_module

        found: object = getattr(import_module(f"ace.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in _PACKAGES:
        from importlib import import_module

        return import_module(f"ace.{name}")
    if name in _INTEGRATIONS:
        return _integration(name)
    raise AttributeError(f"module 'ace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _integration(name: str) -> object:
    from ace.plugins import UnknownPluginError, get_runner

    try:
        runner: object = get_runner(_INTEGRATIONS[name])
    except UnknownPluginError as error:
        raise ImportError(f"ace.{name}: {error}") from error
    return runner


def _fill_registry(kind: str, *, name: str | None = None, built_in: bool = False) -> None:
    from ace.plugins.registering import fill

    fill(kind, name=name, built_in=built_in)


set_filler(_fill_registry)
