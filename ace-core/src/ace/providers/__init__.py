"""Clients of language models. Importing them loads neither litellm nor instructor.

`ClaudeCodeLLMClient`, `LangChainLLMClient` and `LangChainLiteLLMClient` are here too where their packages are
installed.
"""

import importlib
from typing import Any

from ace.protocols.llm import LLMResponse
from ace.providers.embedders import LiteLLMEmbedder, WordLlamaEmbedder
from ace.providers.embedding_cache import CachedEmbedder
from ace.providers.instructor import InstructorClient, wrap_with_instructor
from ace.providers.litellm_client import LiteLLMClient, LiteLLMConfig
from ace.providers.litellm_library import ModelPrice, load_litellm, price_of_model
from ace.providers.request_outcomes import UsageAccount
from ace.providers.structured_answers import ask_until_valid, valid_answer

__all__ = [
    "CachedEmbedder",
    "InstructorClient",
    "LLMResponse",
    "LiteLLMClient",
    "LiteLLMConfig",
    "LiteLLMEmbedder",
    "ModelPrice",
    "UsageAccount",
    "WordLlamaEmbedder",
    "ask_until_valid",
    "load_litellm",
    "price_of_model",
    "valid_answer",
    "wrap_with_instructor",
]

_INTEGRATIONS = {
    "ClaudeCodeLLMClient": "ace-claude-code",
    "LangChainLLMClient": "ace-langchain",
    "LangChainLiteLLMClient": "ace-langchain",
}
"""Clients of other distributions, by name."""


def __getattr__(name: str) -> Any:  # a class of another distribution
    if name not in _INTEGRATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    distribution = _INTEGRATIONS[name]
    package = distribution.replace("-", "_")
    try:
        return getattr(importlib.import_module(package), name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(
            f"{name} is in the distribution {distribution}, which is not installed; install it with: "
            f"pip install {distribution}"
        ) from error
