"""`VectorRanker`: semantic retrieval with an embedding model; imports numpy when used."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, final

from ace.arguments import checked_class
from ace.retrieval.lexical import WEIGHT, helpfulness
from ace.skill import Skill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Embeds", "VectorRanker", "embedded_texts", "fill_unit_rows", "unit_rows"]

_ROWS_AT_ONCE = 1024


class Embeds(Protocol):
    """Embeds texts as vectors."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order, all of the same length.

        Args:
            texts: The texts; at least one.
        """
        ...


def embedded_texts(embedder: Embeds, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """Embed texts, and check that there is one vector for each, all of the same length.

    Args:
        embedder: The embedder, which may be third-party code.
        texts: The texts; at least one.

    Raises:
        ValueError: It returned something else.
    """
    vectors = embedder.embed(texts)
    name = type(embedder).__name__
    if len(vectors) != len(texts):
        raise ValueError(
            f"{name}.embed returned {len(vectors)} vectors for {len(texts)} texts; it must return one for each"
        )
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1 or lengths == [0]:
        shown = " and ".join(map(str, lengths[:2]))
        raise ValueError(
            f"{name}.embed returned vectors of {shown} numbers; all vectors must have the same length, at least 1"
        )
    return vectors


def unit_rows(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the vectors as rows normalized to length 1; a zero vector is not changed, and is similar to nothing.

    Args:
        vectors: little-endian float32 numbers, all of the same length; at least one.
    """
    import numpy as np

    rows = np.empty((len(vectors), len(vectors[0]) // 4), dtype=np.float32)
    fill_unit_rows(rows, vectors)
    return rows


def fill_unit_rows(rows: NDArray[np.float32], vectors: Sequence[bytes]) -> None:
    """Write the normalized vectors into the rows, in chunks, so that little additional memory is used.

    Args:
        rows: One row for each vector.
        vectors: little-endian float32 numbers.
    """
    import numpy as np

    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        part = vectors[start : start + _ROWS_AT_ONCE]
        target = rows[start : start + len(part)]
        target[:] = np.frombuffer(b"".join(part), dtype="<f4").reshape(target.shape)
        lengths = np.sqrt(np.einsum("ij,ij->i", target, target))
        lengths[lengths == 0] = 1
        target /= lengths[:, np.newaxis]


@checked_class
@final
class VectorRanker:
    """Scores skills against a question by the cosine of their vectors. numpy is imported on the first call.

    The stored vector of a skill is used if it has the length of the model's vectors; other skills are embedded once.
    The rows stay in memory, so a question takes one embedding and one multiplication with all rows.

    Args:
        embedder: The embedding model, which must be the one that the vectors in the skillbook come from.

    Example:
        >>> class ByLength:
        ...     def embed(self, texts):
        ...         return [(1.0, len(text)) for text in texts]
        >>> skills = [Skill("a-00001", "a", "Sort."), Skill("a-00002", "a", "Name the capital of the country.")]
        >>> [skill.id for skill in VectorRanker(ByLength()).best("Who?", skills, limit=1)]
        ['a-00001']
    """

    def __init__(self, embedder: Embeds) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._skills: Sequence[Skill] = ()
        self._embedded: dict[str, bytes] = {}
        self._resident_rows: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    def __call__(self, query: str, skills: Sequence[Skill]) -> list[float]:
        """Return the cosine similarity of each skill with the question; negative values become 0."""
        if not skills:
            return []
        wanted = self._question(query)
        with self._lock:
            rows, _ = self._resident(skills, len(wanted))
            relevance: list[float] = (rows @ wanted).clip(0, 1).tolist()
        return relevance

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> list[Skill]:
        """Return the skills with the highest proven relevance, exactly, the best first.

        Args:
            query: The question.
            skills: The skills, in the order of the skillbook.
            limit: The maximum number to return.
        """
        if not skills or limit < 1:
            return []
        import numpy as np

        wanted = self._question(query)
        with self._lock:
            rows, proven = self._resident(skills, len(wanted))
            scores = (rows @ wanted).clip(0, 1)
            scores *= 1 + WEIGHT * proven
            if limit < len(skills):
                least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
                places = np.flatnonzero(scores >= least)
            else:
                places = np.arange(len(skills))
            order = np.lexsort((places, -proven[places], -scores[places]))
            return [skills[place] for place in places[order[:limit]]]

    def _question(self, query: str) -> NDArray[np.float32]:
        [vector] = embedded_texts(self._embedder, [query])
        row: NDArray[np.float32] = unit_rows([_packed(vector)])[0]
        return row

    def _resident(self, skills: Sequence[Skill], length: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the rows and the helpfulness of these skills; recomputed when a skill has changed."""
        resident = self._resident_rows
        # Skills are immutable, so comparing two lists mostly compares identities.
        if resident is not None and resident[0].shape[1] == length and skills == self._skills:
            return resident
        import numpy as np

        vectors = self._vectors_of(skills, length * 4)
        rows = unit_rows([vectors.get(skill.content) or skill.embedding or b"" for skill in skills])
        proven = np.array([helpfulness(skill) for skill in skills], dtype=np.float32)
        self._skills, self._resident_rows = list(skills), (rows, proven)
        return self._resident_rows

    def _vectors_of(self, skills: Sequence[Skill], size: int) -> Mapping[str, bytes]:
        """Return the vectors of the skills without a stored vector of this length, by content; they are cached."""
        lacking = {skill.content for skill in skills if skill.embedding is None or len(skill.embedding) != size}
        known = {content: vector for content, vector in self._embedded.items() if content in lacking}
        new = sorted(lacking - set(known))
        if new:
            made = embedded_texts(self._embedder, new)
            known |= {content: _packed(vector) for content, vector in zip(new, made, strict=True)}
        self._embedded = known
        return known


def _packed(vector: Sequence[float]) -> bytes:
    packed = array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
