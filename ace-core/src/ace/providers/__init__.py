"""Clients of language models. Importing them loads neither litellm nor instructor."""

from ace.providers.embedding_cache import CachedEmbedder
from ace.providers.instructor import InstructorClient, wrap_with_instructor
from ace.providers.litellm import LiteLLMClient, LiteLLMConfig
from ace.providers.litellm_embedder import LiteLLMEmbedder

__all__ = [
    "CachedEmbedder",
    "InstructorClient",
    "LiteLLMClient",
    "LiteLLMConfig",
    "LiteLLMEmbedder",
    "wrap_with_instructor",
]
