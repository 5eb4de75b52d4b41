"""`VectorRanker`: semantic retrieval with an embedding model; imports numpy when used."""

from __future__ import annotations

import sys
import threading
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, final

from ace._internal.arguments import checked_class
from ace.retrieval.lexical import WEIGHT, differences, helpfulness
from ace.skill import Skill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Embeds", "VectorRanker", "embedded_texts", "fill_unit_rows", "unit_rows"]

_ROWS_AT_ONCE = 1024
_ROOM = 16
"""One row in so many may be unused, and there is room for as many further ones."""


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
        self._last: list[Skill] = []
        self._embedded: dict[str, bytes] = {}
        self._lacking: Counter[str] = Counter()
        """How many skills have no vector of their own, by content."""
        self._table: _Table | None = None

    def __call__(self, query: str, skills: Sequence[Skill]) -> list[float]:
        """Return the cosine similarity of each skill with the question; negative values become 0."""
        if not skills:
            return []
        wanted = self._question(query)
        with self._lock:
            table = self._resident(skills, len(wanted))
            relevance: list[float] = (table.rows @ wanted).clip(0, 1)[table.is_used].tolist()
        return relevance

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> list[Skill]:
        """Return the skills with a positive similarity, those with the highest proven relevance first.

        Args:
            query: The question.
            skills: The skills, in the order of the skillbook.
            limit: The maximum number to return; there are fewer if fewer are similar.
        """
        if not skills or limit < 1:
            return []
        import numpy as np

        wanted = self._question(query)
        with self._lock:
            table = self._resident(skills, len(wanted))
            proven = table.proven
            scores = (table.rows @ wanted).clip(0, 1)
            scores *= 1 + WEIGHT * proven
            if table.unused:
                scores[~table.is_used] = -1
            if limit < len(skills):
                least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
                places = np.flatnonzero((scores >= least) & (scores > 0))
            else:
                places = np.flatnonzero(scores > 0)
            order = np.lexsort((places, -proven[places], -scores[places]))
            return [table.skills[place] for place in places[order[:limit]]]

    def _question(self, query: str) -> NDArray[np.float32]:
        [vector] = embedded_texts(self._embedder, [query])
        row: NDArray[np.float32] = unit_rows([_packed(vector)])[0]
        return row

    def _resident(self, skills: Sequence[Skill], length: int) -> _Table:
        """Return the table with the rows of these skills. Only those that have changed are written."""
        table = self._table
        is_usable = table is not None and table.length == length and not table.wastes_rows
        found = differences(self._last, skills) if is_usable else None
        if table is None or found is None:
            wanted = Counter(skill.content for skill in skills if _lacks_vector(skill, length))
            self._embedded |= self._made(wanted)
            self._embedded = {content: self._embedded[content] for content in wanted}
            self._lacking = wanted
            table = self._table = _Table(length)
            table.add(skills, self._embedded)
            self._last = list(skills)
        elif any(found):
            known = table.skill
            replaced = [known(skill.id) for skill in (*found.removed, *found.changed)]
            lacking = Counter(skill.content for skill in (*found.changed, *found.added) if _lacks_vector(skill, length))
            self._embedded |= self._made(lacking)
            self._lacking += lacking
            self._lacking -= Counter(skill.content for skill in replaced if _lacks_vector(skill, length))
            for skill in found.removed:
                table.remove(skill.id)
            table.change(found.changed, self._embedded)
            table.add(found.added, self._embedded)
            for skill in replaced:
                if skill.content not in self._lacking:
                    self._embedded.pop(skill.content, None)
            self._last = list(skills)
        return table

    def _made(self, contents: Iterable[str]) -> dict[str, bytes]:
        """Embed those of the texts that have no vector yet."""
        new = sorted(content for content in contents if content not in self._embedded)
        if not new:
            return {}
        made = embedded_texts(self._embedder, new)
        return {content: _packed(vector) for content, vector in zip(new, made, strict=True)}


@final
class _Table:
    """The vectors of skills as rows of length 1, with their helpfulness. A removed skill leaves its row unused."""

    def __init__(self, length: int) -> None:
        import numpy as np

        self.length = length
        self.skills: list[Skill] = []
        self.unused = 0
        self._places: dict[str, int] = {}
        self._rows = np.empty((0, length), dtype=np.float32)
        self._proven = np.empty(0, dtype=np.float32)
        self._is_used = np.empty(0, dtype=np.bool_)

    @property
    def rows(self) -> NDArray[np.float32]:
        """One row for each skill, and for each removed one."""
        return self._rows[: len(self.skills)]

    @property
    def proven(self) -> NDArray[np.float32]:
        """The helpfulness of the skills."""
        return self._proven[: len(self.skills)]

    @property
    def is_used(self) -> NDArray[np.bool_]:
        """Whether the row is that of a skill, rather than of a removed one."""
        return self._is_used[: len(self.skills)]

    @property
    def wastes_rows(self) -> bool:
        """Whether there are so many unused rows that the table should be rebuilt."""
        return self.unused > _ROWS_AT_ONCE + len(self.skills) // _ROOM

    def skill(self, skill_id: str) -> Skill:
        """Return a skill of the table."""
        return self.skills[self._places[skill_id]]

    def add(self, skills: Sequence[Skill], embedded: Mapping[str, bytes]) -> None:
        """Add rows at the end. `embedded` has the vectors of the contents of skills without one."""
        if not skills:
            return
        first, end = len(self.skills), len(self.skills) + len(skills)
        self._make_room(end)
        self._fill(slice(first, end), skills, embedded)
        self._is_used[first:end] = True
        self._places.update(zip((skill.id for skill in skills), range(first, end), strict=True))
        self.skills += skills

    def change(self, skills: Iterable[Skill], embedded: Mapping[str, bytes]) -> None:
        """Replace skills in their places."""
        for skill in skills:
            place = self._places[skill.id]
            before, self.skills[place] = self.skills[place], skill
            if (before.content, before.embedding) == (skill.content, skill.embedding):
                self._proven[place] = helpfulness(skill)
            else:
                self._fill(slice(place, place + 1), [skill], embedded)

    def remove(self, skill_id: str) -> None:
        """Remove a skill."""
        self._is_used[self._places.pop(skill_id)] = False
        self.unused += 1

    def _fill(self, places: slice, skills: Sequence[Skill], embedded: Mapping[str, bytes]) -> None:
        vectors = [
            embedded[skill.content] if _lacks_vector(skill, self.length) else skill.embedding or b"" for skill in skills
        ]
        fill_unit_rows(self._rows[places], vectors)
        self._proven[places] = [helpfulness(skill) for skill in skills]

    def _make_room(self, rows: int) -> None:
        import numpy as np

        if rows <= len(self._rows):
            return
        room = rows + rows // _ROOM if self.skills else rows
        for name in ("_rows", "_proven", "_is_used"):
            old = getattr(self, name)
            larger = np.empty((room, *old.shape[1:]), dtype=old.dtype)
            larger[: len(self.skills)] = old[: len(self.skills)]
            setattr(self, name, larger)


def _lacks_vector(skill: Skill, length: int) -> bool:
    return skill.embedding is None or len(skill.embedding) != length * 4


def _packed(vector: Sequence[float]) -> bytes:
    packed = array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
