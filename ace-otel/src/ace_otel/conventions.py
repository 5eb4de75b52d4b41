"""The names of spans, attributes, events and metrics, in one place.

The GenAI conventions are published separately from the others, and the package of constants marks its copies of them as
deprecated, so the names are defined here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

__all__ = [
    "SEMANTIC_CONVENTIONS",
    "operation_and_model",
    "provider_of",
    "request_attributes",
    "server_attributes",
]

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
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
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

TOKEN_BOUNDS: Final = tuple(4**power for power in range(14))
"""The bounds of the histogram of tokens that the conventions advise: 1, 4, 16, ..., 67108864."""
DURATION_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""The bounds of the histogram of durations that the conventions advise, in seconds: 0.01, 0.02, ..., 81.92."""

_REQUEST_NAMES: Final = {
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "max_tokens": "gen_ai.request.max_tokens",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "temperature": "gen_ai.request.temperature",
    "top_k": "gen_ai.request.top_k",
    "top_p": "gen_ai.request.top_p",
}
STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"

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


def request_attributes(request: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Return the parameters of a request as attributes. Texts are not included, because they need redaction.

    Args:
        request: The parameters by name.

    Example:
        >>> request_attributes({"max_tokens": 99, "temperature": 0.0})
        {'gen_ai.request.max_tokens': 99, 'gen_ai.request.temperature': 0.0}
    """
    return {
        _REQUEST_NAMES[name]: value
        for name, value in request.items()
        if name in _REQUEST_NAMES and isinstance(value, int | float)
    }


def server_attributes(address: str) -> dict[str, AttributeValue]:
    """Return the host and the port of an address as attributes.

    Example:
        >>> server_attributes("http://localhost:8000/v1")
        {'server.address': 'localhost', 'server.port': 8000}
    """
    parts = urlsplit(address)
    if not parts.hostname:
        return {}
    return {SERVER_ADDRESS: parts.hostname, SERVER_PORT: parts.port or (443 if parts.scheme == "https" else 80)}


def operation_and_model(model: str) -> str:
    """Return the name of the span of a model call.

    Args:
        model: The model string.

    Example:
        >>> operation_and_model("openai/gpt-4o-mini")
        'chat gpt-4o-mini'
    """
    return f"chat {model.rpartition('/')[2]}"
