"""Finds similar skills, by their embeddings or their words, and groups them."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ace._internal.arguments import checked_class
from ace.deduplication.wording import compared_words, stated_values, telling_words
from ace.protocols.deduplication import DeduplicationConfig, EmbedderLike, EmbeddersOwn, find_embedder
from ace.retrieval.vectors import embedded_texts
from ace.skill import Skill
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.deduplication.resident_vectors import ResidentVectors

    Resident = dict[tuple[str, int, float], ResidentVectors]
    """The vectors in memory, by the group of skills, the length of the vectors, and the threshold."""

__all__ = [
    "SimilarGroup",
    "SimilarPair",
    "SimilarityDetector",
    "embedder_for",
    "groups_of_pairs",
    "lexically_similar",
    "same_wording",
]

LEXICAL_THRESHOLD = 0.68
"""The default similarity threshold for comparing words, without an embedding model.

As for each embedder, it is calibrated on 100 labelled pairs (`tests/core/deduplication/labelled_pairs.jsonl`).
"""
DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"
LARGEST_GROUP = 8
"""The maximum number of skills to judge at once; the others are judged the next time."""
_ROUNDING = 1e-9


def lexically_similar(texts: Sequence[str], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of texts whose words have at least this cosine similarity.

    The cosine of two sets of words is the number of words in both, over the geometric mean of their
    sizes; words such as "the" and "of" do not count. Two sets that reach the threshold share a word
    among the rarest of each, so only those are looked up.

    Args:
        texts: The texts to compare with each other.
        threshold: The minimum similarity, from 0 to 1. Texts without a common word are never a pair.

    Yields:
        The indices of the two texts, the smaller one first, and their similarity.

    Example:
        >>> texts = ["Check the units.", "Name the river.", "Check units."]
        >>> list(lexically_similar(texts, 0.8))
        [(0, 2, 1.0)]
    """
    found = [compared_words(text) for text in texts]
    how_many = Counter(word for words in found for word in words)
    rarest_first = [sorted(words, key=lambda word: (how_many[word], word)) for words in found]
    holders: dict[str, list[int]] = {}
    for place, ordered in enumerate(rarest_first):
        candidates: set[int] = set()
        for word in ordered[: _deciding(len(ordered), threshold)]:
            known = holders.setdefault(word, [])
            candidates.update(known)
            known.append(place)
        for earlier in sorted(candidates):
            shared = len(found[place] & found[earlier])
            similarity = shared / math.sqrt(len(found[place]) * len(found[earlier]))
            if similarity >= threshold - _ROUNDING:
                yield earlier, place, similarity


def _deciding(size: int, threshold: float) -> int:
    """Return the number of the rarest words to look up: a pair shares at least `threshold² * size` words."""
    return size - math.ceil(threshold * threshold * size - _ROUNDING) + 1


class SimilarPair(NamedTuple):
    """Two skills that are similar."""

    first: Skill
    """The one that comes first in the skillbook."""
    second: Skill
    similarity: float
    """Their cosine similarity, at most 1."""


@checked_class
class SimilarityDetector:
    """Finds pairs of similar skills.

    The vectors of the last skillbook stay in memory with their pairs, so only new skills have to be compared.

    Args:
        config: The settings; None uses the defaults.
        embedder: The embedding model; by default the one of `embedding_provider`.

    Raises:
        ValueError: The provider is `local`, and its package is not installed.

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
        self._embedder = embedder if embedder is not None else embedder_for(self.config)
        self._resident: Resident = {}
        self._lock = threading.Lock()

    def ensure_embeddings(self, skillbook: Skillbook) -> int:
        """Embed the active skills that have no vector, and store the vectors. Without an embedder, do nothing.

        Vectors of a different length come from another model and are replaced.

        Args:
            skillbook: The skillbook in which the vectors are stored.

        Returns:
            The number of new vectors.

        Raises:
            LLMError: The embedding model could not be reached. The skillbook is not changed.
            ValueError: The embedder did not return one vector for each text, or vectors of different lengths.
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

        Pairs that were judged to be different are omitted.

        Args:
            skillbook: The skillbook; it is not changed.
            threshold: The minimum similarity, from 0 to 1; by default that of the settings or of the embedder.
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
        """Return the lists of skills to compare with each other: all skills, or those of each section."""
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
        """Return the threshold of the settings, or the default for the kind of comparison."""
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
        """Whether to compare vectors: there is an embedder, or every skill has a vector already."""
        if self._embedder is not None:
            return True
        return self.config.embedding_provider == "auto" and all(skill.embedding is not None for skill in skills)


def embedder_for(config: DeduplicationConfig) -> EmbedderLike | None:
    """Return the embedder for these settings; None compares words.

    Args:
        config: The settings.

    Raises:
        ValueError: The plugin of the provider was removed.
    """
    provider = config.embedding_provider
    if provider == "auto":
        provider = "local" if config.embedding_model is None else "litellm"
    if provider == "lexical":
        return None
    factory = find_embedder(provider)
    if factory is None:
        raise ValueError(f"the embedder {provider!r} is no longer available; its plugin was removed")
    return factory(config.embedding_model or (DEFAULT_EMBEDDING_MODEL if provider == "litellm" else None))


@dataclass(frozen=True, slots=True)
class SimilarGroup:
    """A group of similar skills, with the pairs that connect them."""

    skills: tuple[Skill, ...]
    pairs: tuple[SimilarPair, ...]

    def has_pair(self, first: Skill, second: Skill) -> bool:
        """Return whether two of its skills are similar to each other."""
        return any({pair.first.id, pair.second.id} == {first.id, second.id} for pair in self.pairs)


def same_wording(skillbook: Skillbook, *, within_section_only: bool) -> list[list[Skill]]:
    """Return the groups of active skills with the same wording and the same values.

    Args:
        skillbook: The skillbook. Skills that were judged to be different are never in the same group.
        within_section_only: Whether to group only skills of the same section.
    """
    same_words: dict[tuple[str, tuple[str, ...]], list[Skill]] = {}
    for skill in skillbook.skills():
        section = skill.section if within_section_only else ""
        same_words.setdefault((section, telling_words(skill.content)), []).append(skill)
    # Few skills have the same words as another one, so few values have to be compared.
    return [group for skills in same_words.values() if len(skills) > 1 for group in _same_values(skillbook, skills)]


def _same_values(skillbook: Skillbook, skills: Sequence[Skill]) -> Iterator[list[Skill]]:
    groups: dict[frozenset[str], list[list[Skill]]] = {}
    for skill in skills:
        candidates = groups.setdefault(stated_values(skill.content), [])
        for group in candidates:
            if not any(skillbook.has_keep_decision(skill.id, member.id) for member in group):
                group.append(skill)
                break
        else:
            candidates.append([skill])
    return (group for candidates in groups.values() for group in candidates if len(group) > 1)


def groups_of_pairs(pairs: Sequence[SimilarPair]) -> list[SimilarGroup]:
    """Join pairs into groups, the most similar pairs first.

    Args:
        pairs: The pairs, the most similar first. A pair that would make a group too large is omitted.

    Returns:
        The groups in the order of their most similar pairs.
    """
    group_of: dict[str, list[Skill]] = {}
    for pair in pairs:
        first = group_of.setdefault(pair.first.id, [pair.first])
        second = group_of.setdefault(pair.second.id, [pair.second])
        if first is not second and len(first) + len(second) <= LARGEST_GROUP:
            first += second
            for skill in second:
                group_of[skill.id] = first
    inside: dict[str, list[SimilarPair]] = {}
    for pair in pairs:
        group = group_of[pair.first.id]
        if group is group_of[pair.second.id]:
            inside.setdefault(group[0].id, []).append(pair)
    return [SimilarGroup(tuple(group_of[group[0].first.id]), tuple(group)) for group in inside.values()]
