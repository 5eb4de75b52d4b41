"""Finds pairs of similar skills, by vectors where there is an embedding model, else by their words."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ace.arguments import checked_class
from ace.deduplication.lexical import lexically_similar
from ace.protocols.deduplication import DeduplicationConfig, EmbedderLike, EmbeddersOwn
from ace.protocols.embedders import find_embedder
from ace.retrieval.vectors import embedded_texts
from ace.skill import Skill
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.deduplication.resident_vectors import ResidentVectors

    Resident = dict[tuple[str, int, float], ResidentVectors]
    """What stays in memory: by the group that is compared, the length of its vectors, and the threshold."""

__all__ = ["SimilarPair", "SimilarityDetector"]

LEXICAL_THRESHOLD = 0.6
"""What skills that say the same in other words have in common, without a model that knows the words."""
DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"


class SimilarPair(NamedTuple):
    """Two skills that are similar."""

    first: Skill
    """The one that stands first in the book."""
    second: Skill
    similarity: float
    """Their cosine, up to 1."""


@checked_class
class SimilarityDetector:
    """Finds pairs of similar skills.

    The vectors of the last book stay in memory with their pairs, so a few new skills cost a few rows of the
    comparison, not a new search.

    Args:
        config: The settings; None takes the defaults.
        embedder: What makes the vectors; by default as `embedding_provider` says.

    Raises:
        ValueError: The provider is `local`, and the package for it is not installed.

    Example:
        >>> book = Skillbook()
        >>> for content in ("Check the units.", "Check all units.", "Name the river."):
        ...     _ = book.add_skill("maths", content)
        >>> by_words = SimilarityDetector(DeduplicationConfig(embedding_provider="lexical"))
        >>> for pair in by_words.detect_similar_pairs(book, 0.8):
        ...     print(pair.first.id, pair.second.id, round(pair.similarity, 2))
        maths-00001 maths-00002 0.82
    """

    def __init__(self, config: DeduplicationConfig | None = None, *, embedder: EmbedderLike | None = None) -> None:
        self.config = config if config is not None else DeduplicationConfig()
        self._embedder = embedder if embedder is not None else _embedder_for(self.config)
        self._resident: Resident = {}
        self._lock = threading.Lock()

    def ensure_embeddings(self, skillbook: Skillbook) -> int:
        """Make the vectors of the active skills that have none. Without an embedder nothing happens.

        Vectors of another length than the new ones come from another model; they are made again.

        Args:
            skillbook: The book; the vectors are kept in it.

        Returns:
            How many vectors were made.

        Raises:
            LLMError: The embedding model could not be reached. The book is as it was.
            ValueError: The embedder made no vector of each text, or vectors of different lengths.
        """
        if self._embedder is None:
            return 0
        skills = skillbook.skills()
        vectors = self._vectors_of([skill for skill in skills if skill.embedding is None])
        if not vectors:
            return 0
        size = 4 * len(next(iter(vectors.values())))
        vectors |= self._vectors_of(
            [skill for skill in skills if skill.embedding is not None and len(skill.embedding) != size]
        )
        current = {skill.id: skill for skill in skillbook.skills()}
        skillbook.set_embeddings(
            # A skill whose text changed meanwhile is embedded the next time.
            {
                skill.id: vectors[skill.id]
                for skill in skills
                if skill.id in vectors and skill.id in current and current[skill.id].content == skill.content
            }
        )
        return len(vectors)

    def detect_similar_pairs(self, skillbook: Skillbook, threshold: float | None = None) -> list[SimilarPair]:
        """Return the similar pairs of active skills, the most similar first.

        Pairs that were judged to be kept apart are left out.

        Args:
            skillbook: The book; it is not changed.
            threshold: The least similarity, from 0 to 1; by default that of the settings, or the one that fits the
                embedder.
        """
        with self._lock:
            used: Resident = {}
            pairs = [
                pair
                for name, skills in self._compared_groups(skillbook.skills()).items()
                for pair in self._similar(name, skills, threshold, used)
                if not skillbook.has_keep_decision(pair.first.id, pair.second.id)
            ]
            self._resident = used
        return sorted(pairs, key=lambda pair: (-pair.similarity, pair.first.id, pair.second.id))

    def _vectors_of(self, skills: Sequence[Skill]) -> dict[str, Sequence[float]]:
        if not skills or self._embedder is None:
            return {}
        vectors = embedded_texts(self._embedder, [skill.content for skill in skills])
        return {skill.id: vector for skill, vector in zip(skills, vectors, strict=True)}

    def _compared_groups(self, skills: Sequence[Skill]) -> dict[str, list[Skill]]:
        """Return the lists of skills that are compared with each other: all, or those of each section."""
        groups: dict[str, list[Skill]] = {}
        for skill in skills:
            groups.setdefault(skill.section if self.config.within_section_only else "", []).append(skill)
        return groups

    def _similar(
        self, group: str, skills: Sequence[Skill], threshold: float | None, used: Resident
    ) -> Iterator[SimilarPair]:
        compares_vectors = self._compares_vectors(skills)
        if threshold is None:
            threshold = self._default_threshold(compares_vectors=compares_vectors)
        if compares_vectors:
            yield from self._near(group, skills, threshold, used)
            return
        for first, second, similarity in lexically_similar([skill.content for skill in skills], threshold):
            yield SimilarPair(skills[first], skills[second], similarity)

    def _default_threshold(self, *, compares_vectors: bool) -> float:
        """Return the threshold of the settings; where they name none, the one that fits what is compared."""
        threshold = self.config.similarity_threshold
        if not isinstance(threshold, EmbeddersOwn):
            return threshold
        own: object = getattr(self._embedder, "similarity_threshold", None) if compares_vectors else LEXICAL_THRESHOLD
        return float(own) if isinstance(own, int | float) else float(threshold)

    def _near(self, group: str, skills: Sequence[Skill], threshold: float, used: Resident) -> Iterator[SimilarPair]:
        from ace.deduplication.resident_vectors import ResidentVectors

        by_length: dict[int, dict[str, bytes]] = {}
        for skill in skills:
            if skill.embedding is not None:
                by_length.setdefault(len(skill.embedding), {})[skill.id] = skill.embedding
        places = {skill.id: place for place, skill in enumerate(skills)}
        for length, vectors in by_length.items():
            key = (group, length, threshold)
            resident = used[key] = self._resident.get(key) or ResidentVectors(threshold)
            for pair in resident.near_pairs(vectors):
                first, second = sorted((places[pair.first], places[pair.second]))
                yield SimilarPair(skills[first], skills[second], pair.cosine)

    def _compares_vectors(self, skills: Sequence[Skill]) -> bool:
        """Whether vectors decide: there is an embedder, or somebody gave every skill a vector."""
        if self._embedder is not None:
            return True
        return self.config.embedding_provider == "auto" and all(skill.embedding is not None for skill in skills)


def _embedder_for(config: DeduplicationConfig) -> EmbedderLike | None:
    """Return what makes vectors under these settings; None compares words."""
    from ace.providers.wordllama_embedder import WordLlamaEmbedder

    provider = config.embedding_provider
    if provider == "auto":
        keyless = "local" if WordLlamaEmbedder.is_installed() else "lexical"
        provider = keyless if config.embedding_model is None else "litellm"
    if provider == "lexical":
        return None
    if provider == "local" and not WordLlamaEmbedder.is_installed():
        raise ValueError(
            "embedding_provider 'local' needs the package 'wordllama': pip install 'ace-core[embeddings]'; "
            "'lexical' compares words and needs nothing"
        )
    factory = find_embedder(provider)
    if factory is None:
        raise ValueError(f"there is no embedder {provider!r} any more; the plugin that gave it is gone")
    return factory(config.embedding_model or (DEFAULT_EMBEDDING_MODEL if provider == "litellm" else None))
