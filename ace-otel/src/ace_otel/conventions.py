"""The names of spans, attributes, events and metrics, in one place.

The GenAI conventions are published separately from the others, and the package of constants marks its copies of them as
deprecated, so the names are defined here.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SEMANTIC_CONVENTIONS", "operation_and_model", "provider_of"]

SEMANTIC_CONVENTIONS: Final = "1.44.0"
"""The version of the OpenTelemetry semantic conventions, GenAI included, that spans, metrics and log events follow."""
SCHEMA: Final = f"https://opentelemetry.io/schemas/{SEMANTIC_CONVENTIONS}"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
AGENT: Final = "gen_ai.agent.name"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_SCORE: Final = "gen_ai.evaluation.score.value"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
ERROR_TYPE: Final = "error.type"

RUN_ID: Final = "ace.run.id"
RUNNER: Final = "ace.run.runner"
TRACE_ID: Final = "ace.trace.id"
EPOCH: Final = "ace.epoch"
INDEX: Final = "ace.sample.index"
OUTCOME: Final = "ace.outcome"
FAILED_AT: Final = "ace.failed_at"
STEP: Final = "ace.step"
BACKGROUND: Final = "ace.step.background"
ROLE: Final = "ace.role"
COST: Final = "ace.cost"
RECORDED: Final = "ace.recorded"

_PROVIDERS: Final = {
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "vertex_ai": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Providers whose names in the conventions differ from those in model strings."""


def provider_of(model: str) -> str:
    """Return the provider of a model string, as the conventions name it.

    Args:
        model: The model string.

    Example:
        >>> provider_of("anthropic/claude-sonnet-4-5"), provider_of("gemini/gemini-2.5-pro"), provider_of("gpt-4o-mini")
        ('anthropic', 'gcp.gemini', 'openai')
    """
    prefix, slash, _ = model.partition("/")
    if slash:
        return _PROVIDERS.get(prefix, prefix)
    return "anthropic" if model.startswith("claude") else "openai"


def operation_and_model(model: str) -> str:
    """Return the name of the span of a model call.

    Args:
        model: The model string.

    Example:
        >>> operation_and_model("openai/gpt-4o-mini")
        'chat gpt-4o-mini'
    """
    return f"chat {model.rpartition('/')[2]}"
