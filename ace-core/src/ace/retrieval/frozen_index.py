"""`FrozenIndex`: what `MeaningIndex` knows about the skills of one moment, as arrays that need not be parsed."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence, Set
from functools import cache
from typing import TYPE_CHECKING, Final, final

from ace.retrieval.lexical import SATURATION, WEIGHT, helpfulness, rarity, saturated, searched_text, words
from ace.retrieval.meaning import DIGITS, LEAST, OF_WORDS, embedded_text
from ace.retrieval.word_vectors import word_vectors
from ace.skill import Skill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FrozenIndex"]

_DIGEST_SIZE: Final = 16
_HASH_SIZE: Final = 8
_CHECK_SIZE: Final = 4
_MAGIC: Final = b"ACE search 1\n"
"""Another number is needed if the arrays, `words` or the searched texts change, so that old files are rebuilt."""


@final
class FrozenIndex:
    """The vectors and words of some skills, which finds the same as `MeaningRanker`.

    Of the skills, it has only what a search compares: their ids and counters, the vectors of their texts, and hashes of
    their words.

    Example:
        >>> paid = Skill("a-1", "a", "Employees are paid on the last Friday of the month.")
        >>> food = Skill("b-1", "b", "Do not store food in the laboratory refrigerator.")
        >>> index = FrozenIndex.from_bytes(FrozenIndex.of([paid, food]).to_bytes())
        >>> index.best("On which day do I receive my pay?", limit=3)
        ['a-1']
        >>> index.best("On which day do I receive my pay?", limit=3, besides={"a-1"})
        []
    """

    def __init__(self, ids: Sequence[str], pinned: Set[str], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self.ids = ids
        """In the order of the skillbook."""
        self.pinned = pinned
        self._arrays = arrays
        self._helpfulness: NDArray[np.float64] = arrays["helpfulness"]  # type: ignore[assignment]
        self._digests: NDArray[np.void] = arrays["digests"]  # type: ignore[assignment]
        self._vectors: NDArray[np.float32] = arrays["vectors"]  # type: ignore[assignment]
        self._words: NDArray[np.uint64] = arrays["words"]  # type: ignore[assignment]
        self._ends: NDArray[np.int64] = arrays["ends"]  # type: ignore[assignment]

    @classmethod
    def of(cls, skills: Sequence[Skill], earlier: FrozenIndex | None = None) -> FrozenIndex:
        """Return the index of skills.

        Args:
            skills: The skills, in the order of the skillbook.
            earlier: An older index, from which the vectors and words of unchanged texts are taken.
        """
        import numpy as np

        known = {} if earlier is None else {bytes(digest): at for at, digest in enumerate(earlier._digests)}
        digests = [_digest(skill) for skill in skills]
        new = [at for at, digest in enumerate(digests) if digest not in known]
        made = word_vectors().rows([embedded_text(skills[at]) for at in new])
        vectors = np.zeros((len(skills), made.shape[1]), dtype="<f4")
        vectors[new] = made
        hashes: list[NDArray[np.uint64]] = []
        for at, (skill, digest) in enumerate(zip(skills, digests, strict=True)):
            if earlier is not None and digest in known:
                vectors[at] = earlier._vectors[known[digest]]
                hashes.append(earlier._words_of(known[digest]))
            else:
                hashes.append(np.array([_hash(word) for word in words(searched_text(skill))], dtype="<u8"))
        arrays = {
            "helpfulness": np.array([helpfulness(skill) for skill in skills], dtype="<f8"),
            "digests": np.frombuffer(b"".join(digests), dtype=f"V{_DIGEST_SIZE}"),
            "vectors": vectors,
            "words": np.concatenate(hashes) if hashes else np.zeros(0, dtype="<u8"),
            "ends": np.cumsum([len(some) for some in hashes], dtype="<i8"),
        }
        return cls([skill.id for skill in skills], {skill.id for skill in skills if skill.pinned}, arrays)

    def to_bytes(self) -> bytes:
        """Return the index as bytes, for `from_bytes`."""
        data = b"".join(self._arrays[name].tobytes() for name in _LAYOUT)
        head = {
            "ids": self.ids,
            "pinned": sorted(self.pinned),
            "length": self._vectors.shape[1],
            "words": len(self._words),
            "word_vectors": word_vectors().identity,
        }
        body = json.dumps(head, separators=(",", ":")).encode() + b"\n" + data
        return _MAGIC + zlib.crc32(body).to_bytes(_CHECK_SIZE) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> FrozenIndex:
        """Return the index in bytes, which must not be changed afterwards.

        Raises:
            ValueError: They are damaged, or from a version of ACE or of the word vectors with other arrays.
        """
        import numpy as np

        start = len(_MAGIC) + _CHECK_SIZE
        if not data.startswith(_MAGIC):
            raise ValueError("it is not an index of this version")
        if int.from_bytes(data[len(_MAGIC) : start]) != zlib.crc32(memoryview(data)[start:]):
            raise ValueError("the index is damaged")
        head = data[start : data.index(b"\n", start)]
        about = json.loads(head)
        start += len(head) + 1
        if about["word_vectors"] != word_vectors().identity:
            raise ValueError("the index was made with other word vectors")
        size = len(about["ids"])
        shapes = {"vectors": (size, about["length"]), "words": (about["words"],)}
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, kind in _LAYOUT.items():
            shape = shapes.get(name, (size,))
            arrays[name] = np.frombuffer(data, dtype=kind, count=int(np.prod(shape)), offset=start).reshape(shape)
            start += arrays[name].nbytes
        return cls(about["ids"], set(about["pinned"]), arrays)

    def best(self, query: str, limit: int, besides: Set[str] = frozenset()) -> list[str]:
        """Return the ids of the skills that fit the question, the ones with the highest proven relevance first.

        Args:
            query: The question.
            limit: The maximum number to return; there are fewer if fewer fit.
            besides: The ids of skills that are ignored, as if they did not exist.
        """
        import numpy as np

        among = np.array([id not in besides for id in self.ids], dtype=bool)
        if limit < 1 or not among.any():
            return []
        [wanted] = word_vectors().rows([query])
        # In the same way as `MeaningIndex`, to the last digit.
        relevance: NDArray[np.float32] = np.einsum("ij,j->i", self._vectors, wanted).round(DIGITS)
        fits = np.flatnonzero((relevance >= LEAST) & among)
        for place, share in self._shares(query, fits, among).items():
            relevance[place] += OF_WORDS * share

        def order(place: int) -> tuple[float, float, int]:
            helpful = float(self._helpfulness[place])
            return -float(relevance[place]) * (1 + WEIGHT * helpful), -helpful, place

        return [self.ids[place] for place in sorted(fits.tolist(), key=order)[:limit]]

    def _shares(self, query: str, fits: NDArray[np.intp], among: NDArray[np.bool_]) -> dict[int, float]:
        """Return which share of the highest possible relevance by words each fitting skill has, by place."""
        import numpy as np

        if not len(fits):
            return {}
        size = int(among.sum())
        lengths = np.diff(self._ends, prepend=0)
        mean_length = int(lengths[among].sum()) / size or 1.0
        asked = sorted(set(words(query)))
        counts = {word: self._counts(word, among) for word in asked}
        holders = {word: int(np.count_nonzero(counts[word])) for word in asked}
        found = [word for word in asked if holders[word]]
        rarer = [word for word in found if holders[word] * 2 <= size]
        terms = sorted(rarer or found, key=holders.__getitem__)
        unknown = len(asked) - len(found)
        most = sum(rarity(holders[word], size) for word in terms) + unknown * rarity(0, size)
        shares: dict[int, float] = {}
        for word in terms:
            weight = rarity(holders[word], size) * (SATURATION + 1)
            for place in fits[counts[word][fits] > 0].tolist():
                count, length = int(counts[word][place]), int(lengths[place])
                shares[place] = shares.get(place, 0.0) + weight * saturated(count, length, mean_length)
        return {place: score / most / (SATURATION + 1) for place, score in shares.items()}

    def _counts(self, word: str, among: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return how often each of the skills contains a word."""
        import numpy as np

        at = np.flatnonzero(self._words == _hash(word))
        counts = np.bincount(np.searchsorted(self._ends, at, side="right"), minlength=len(self.ids))
        return counts * among

    def _words_of(self, place: int) -> NDArray[np.uint64]:
        return self._words[int(self._ends[place - 1]) if place else 0 : int(self._ends[place])]


_LAYOUT: Final[Mapping[str, str]] = {
    "helpfulness": "<f8",
    "digests": f"V{_DIGEST_SIZE}",
    "vectors": "<f4",
    "words": "<u8",
    "ends": "<i8",
}
"""The arrays in the order in which they are stored, with their types."""


def _digest(skill: Skill) -> bytes:
    texts = f"{embedded_text(skill)}\0{searched_text(skill)}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(texts, digest_size=_DIGEST_SIZE).digest()


@cache
def _hash(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=_HASH_SIZE).digest()
    return int.from_bytes(digest, "little")
