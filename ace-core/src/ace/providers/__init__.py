"""Clients of language models. Importing them loads neither litellm nor instructor."""

from ace.providers.embedding_cache import CachedEmbedder
from ace.providers.instructor import InstructorClient, wrap_with_instructor
from ace.providers.litellm import LiteLLMClient, LiteLLMConfig
from ace.providers.litellm_embedder import LiteLLMEmbedder
from ace.providers.structured_answers import ask_until_valid, valid_answer
from ace.providers.usage import UsageAccount
from ace.providers.wordllama_embedder import WordLlamaEmbedder

__all__ = [
    "CachedEmbedder",
    "InstructorClient",
    "LiteLLMClient",
    "LiteLLMConfig",
    "LiteLLMEmbedder",
    "UsageAccount",
    "WordLlamaEmbedder",
    "ask_until_valid",
    "valid_answer",
    "wrap_with_instructor",
]
