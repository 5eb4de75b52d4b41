"""Similar texts by their words alone: no model, no dependency, exact."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ace.deduplication.wording import telling_words
from ace.retrieval import words

__all__ = ["lexically_similar"]

_ROUNDING = 1e-9


def lexically_similar(texts: Sequence[str], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of texts whose words have at least this cosine.

    The cosine of two sets of words is the number of words in both, over the geometric mean of their
    sizes. Two sets that reach the threshold share a word among the rarest of each, so only those are
    looked up.

    Args:
        texts: The texts.
        threshold: The least similarity, from 0 to 1. Texts that share no word are never a pair.

    Yields:
        The places of the two texts, the first one below the second, and their similarity.

    Example:
        >>> texts = ["Check the units.", "Name the river.", "Check units."]
        >>> list(lexically_similar(texts, 0.8))
        [(0, 2, 1.0)]
    """
    found = [frozenset(words(" ".join(telling_words(text)))) for text in texts]
    how_many = Counter(word for held in found for word in held)
    rarest_first = [sorted(held, key=lambda word: (how_many[word], word)) for held in found]
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
    """Return how many of the rarest words decide: a pair shares at least `threshold² * size` of them."""
    return size - math.ceil(threshold * threshold * size - _ROUNDING) + 1
