"""What a deduplication manager must look like, and its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ace.arguments import checked_class

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["DeduplicationConfig", "DeduplicationManagerLike", "EmbedderLike", "SkillConsolidatorLike"]

BUILT_IN_PROVIDERS: Final = ("auto", "litellm", "local", "lexical")


@checked_class
@dataclass(frozen=True, slots=True)
class DeduplicationConfig:
    """Settings of deduplication.

    Raises:
        ValueError: The threshold is not between 0 and 1, or the provider is unknown.
    """

    enabled: bool = True
    """False switches deduplication off."""
    similarity_threshold: float = 0.85
    """Cosine similarity from 0 to 1, from which two skills count as similar."""
    within_section_only: bool = True
    """True compares only skills of one section."""
    embedding_provider: str = "auto"
    """`auto` uses LiteLLM if `embedding_model` is set, else word vectors on this machine if the extra
    `ace-core[embeddings]` is installed, else a lexical similarity that needs nothing; `litellm`, `local`, `lexical`
    or the name of a plugin choose one."""
    embedding_model: str | None = None
    """The model string for LiteLLM embeddings; `litellm` without one takes `text-embedding-3-small`."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.similarity_threshold <= 1.0:
            raise ValueError(f"similarity_threshold must lie between 0 and 1, got {self.similarity_threshold!r}")
        if self.embedding_provider in BUILT_IN_PROVIDERS:
            return
        from ace.protocols.embedders import embedder_names, find_embedder  # it imports this module

        if find_embedder(self.embedding_provider) is None:
            known = ", ".join(repr(name) for name in dict.fromkeys([*BUILT_IN_PROVIDERS, *embedder_names()]))
            raise ValueError(f"embedding_provider must be one of {known}, got {self.embedding_provider!r}")


@runtime_checkable
class DeduplicationManagerLike(Protocol):
    """Finds similar skills. Nobody has to inherit from this class."""

    def get_similarity_report(self, skillbook: Skillbook) -> str | None:
        """Return a text on the similar skills of a book, or None if there are none."""
        ...


@runtime_checkable
class EmbedderLike(Protocol):
    """Turns texts into vectors. Nobody has to inherit from this class."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order, all of one length.

        Args:
            texts: The texts; at least one.

        Raises:
            LLMError: The model could not be reached.
        """
        ...


@runtime_checkable
class SkillConsolidatorLike(Protocol):
    """A skill manager that can also be asked about similar skills; its method may be `async def`."""

    def consolidate_skills(self, *, prompt: str) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Ask what shall become of similar skills.

        Args:
            prompt: The whole question, with the groups of similar skills.

        Returns:
            The answer: an object with the list `consolidation_operations`.

        Raises:
            LLMError: The model could not be reached or gave no usable answer.
        """
        ...
