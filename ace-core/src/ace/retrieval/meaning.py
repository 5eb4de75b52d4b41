"""`MeaningRanker`: retrieval by the meaning of words, with "nothing fits" as a possible answer."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING, Final, final

from ace._internal.arguments import checked_class
from ace.retrieval.lexical import WEIGHT, KeptIndex, LexicalIndex, helpfulness
from ace.retrieval.word_vectors import word_vectors
from ace.skill import Skill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DIGITS", "LEAST", "OF_WORDS", "MeaningIndex", "MeaningRanker", "embedded_text"]

LEAST: Final = 0.22
"""The least similarity at which a skill fits a question.

It was calibrated on `benchmarks/paraphrases/calibration.json` and the sets of `benchmarks/learning_quality`, so that a
skill is shown to about one of ten neutral questions."""
OF_WORDS: Final = 0.3
"""What common words add to the similarity, at most. It decides between codes and names, which have no meaning."""
DIGITS: Final = 5
_ROOM: Final = 16
"""There is room for one more row in so many."""


@final
class MeaningIndex:
    """The texts of a changing set of skills, as vectors and as words. It is not thread-safe.

    A change only notes the skill. Its vectors are made at the next question, so adding takes equally long in any book.

    Example:
        >>> index = MeaningIndex()
        >>> index.put(Skill("a-1", "a", "Employees are paid on the last Friday of the month."), 0)
        >>> index.put(Skill("b-1", "b", "Do not store food in the laboratory refrigerator."), 1)
        >>> index.best("On which day do I receive my pay?", limit=3)
        ['a-1']
        >>> index.best("Who painted the Mona Lisa?", limit=3)
        []
    """

    def __init__(self) -> None:
        self._words = LexicalIndex()
        self._unread: dict[str, None] = {}
        self._table: _Table | None = None

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, skill_id: object) -> bool:
        """Return whether the skill is in the index."""
        return skill_id in self._words

    def put(self, skill: Skill, place: int) -> None:
        """Add a skill, or replace the one with its id; see `LexicalIndex.put`."""
        self._words.put(skill, place)
        self._unread[skill.id] = None

    def replace(self, skill: Skill) -> None:
        """Replace the skill with the same id, which is in the index, in its place."""
        self._words.replace(skill)
        self._unread[skill.id] = None

    def hold(self, skills: Sequence[Skill], places: Sequence[int]) -> None:
        """Make these the skills of the index; see `LexicalIndex.hold`."""
        self._words.hold(skills, places)
        if self._table is not None:
            self._table.keep(self._words)
        self._unread = dict.fromkeys(skill.id for skill in skills)

    def skill(self, skill_id: str) -> Skill:
        """Return a skill as it was put in."""
        return self._words.skill(skill_id)

    def remove(self, skill_id: str) -> None:
        """Remove a skill; one that is not there is ignored."""
        self._words.remove(skill_id)
        self._unread.pop(skill_id, None)
        if self._table is not None:
            self._table.remove(skill_id)

    def scores(self, query: str) -> dict[str, float]:
        """Return the relevance of each skill that fits the question, by id."""
        table = self._current()
        relevance, fits = self._relevance(table, query)
        return {table.ids[place]: float(relevance[place]) for place in fits}

    def best(self, query: str, limit: int) -> list[str]:
        """Return the ids of the skills that fit the question, the ones with the highest proven relevance first.

        Args:
            query: The question.
            limit: The maximum number to return; there are fewer if fewer fit.
        """
        if limit < 1 or not len(self):
            return []
        import numpy as np

        table = self._current()
        relevance, fits = self._relevance(table, query)
        if limit < len(fits):
            proven = relevance[fits] * (1 + WEIGHT * table.helpfulness[fits])
            fits = fits[proven >= np.partition(proven, -limit)[-limit]]
        return self._words.by_relevance({table.ids[place]: float(relevance[place]) for place in fits})[:limit]

    def in_order(self, query: str, ids: Collection[str]) -> list[str]:
        """Return some of the skills, those with the highest proven relevance first.

        Args:
            query: The question.
            ids: Their ids.
        """
        scores = self.scores(query)
        return self._words.by_relevance({id: scores.get(id, 0.0) for id in ids})

    def _current(self) -> _Table:
        """Return the table with the vectors of all skills. numpy is imported when it is first needed."""
        if self._table is None:
            self._table = _Table()
        self._table.put([self._words.skill(id) for id in self._unread])
        self._unread.clear()
        return self._table

    def _relevance(self, table: _Table, query: str) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Return the relevance by place in the table, and the places of the skills that fit."""
        import numpy as np

        similarity = table.similarity(query)
        fits = np.flatnonzero(similarity >= LEAST)
        if len(fits):
            for id, share in self._words.shares(query).items():
                similarity[table.places[id]] += OF_WORDS * share
        return similarity, fits


@final
class _Table:
    """The vectors of skills as rows of length 1. The row of a removed skill is zero until another skill takes it."""

    def __init__(self) -> None:
        import numpy as np

        self.ids: list[str] = []
        """The skill of each row; the last one that had a row that is free."""
        self.places: dict[str, int] = {}
        self.helpfulness = np.zeros(0, dtype=np.float32)
        """The helpfulness of the skill of each row."""
        self._texts: dict[str, str] = {}
        self._free: list[int] = []
        self._rows = np.zeros((0, 0), dtype=np.float32)

    def put(self, skills: Sequence[Skill]) -> None:
        """Add skills, or replace those with their ids. Only new texts are embedded."""
        texts = {skill.id: embedded_text(skill) for skill in skills}
        new = {id: text for id, text in texts.items() if self._texts.get(id) != text}
        for id in new:
            if id not in self.places:
                self.places[id] = self._free.pop() if self._free else len(self.ids)
                self.ids[self.places[id] : self.places[id] + 1] = [id]
        if new:
            made = word_vectors().rows(list(new.values()))
            if len(self.ids) > len(self._rows):
                self._make_room(len(self.ids), made.shape[1])
            self._rows[[self.places[id] for id in new]] = made
            self._texts |= new
        for skill in skills:
            self.helpfulness[self.places[skill.id]] = helpfulness(skill)

    def remove(self, skill_id: str) -> None:
        """Remove a skill; one that is not there is ignored."""
        if skill_id in self.places:
            place = self.places.pop(skill_id)
            del self._texts[skill_id]
            self._rows[place] = 0
            self._free.append(place)

    def keep(self, ids: Container[str]) -> None:
        """Remove all skills but these."""
        for id in [id for id in self.places if id not in ids]:
            self.remove(id)

    def similarity(self, query: str) -> NDArray[np.float32]:
        """Return the similarity of the question with the skill of each row."""
        if not self.ids:
            return self.helpfulness
        import numpy as np

        [wanted] = word_vectors().rows([query])
        # Not with BLAS, whose threads wait for each other in spin loops where other programs use the cores.
        similarity: NDArray[np.float32] = np.einsum("ij,j->i", self._rows[: len(self.ids)], wanted)
        # Rounded, so that skills with the same text are equally similar, wherever their rows are.
        return similarity.round(DIGITS)

    def _make_room(self, size: int, length: int) -> None:
        import numpy as np

        rows = np.zeros((size + size // _ROOM, length), dtype=np.float32)
        rows[: len(self._rows)] = self._rows if len(self._rows) else 0
        self._rows, proven = rows, self.helpfulness
        self.helpfulness = np.zeros(len(rows), dtype=np.float32)
        self.helpfulness[: len(proven)] = proven


def embedded_text(skill: Skill) -> str:
    """Return the text of a skill, and the questions of its cases, which tell what it is about in other words."""
    return "\n".join((skill.content, *dict.fromkeys(case.question for case in skill.cases)))


@checked_class
@final
class MeaningRanker:
    """Scores skills against a question by meaning: the words need not be the same.

    The texts of the skills and the questions of their cases are compared with the question as static word vectors of
    the package `wordllama`, which take less than 0.1 s to load and need no network. Common words add to that. A
    skill that does not fit has the score 0, and it is possible that none fits.

    Example:
        >>> skills = [
        ...     Skill("a-1", "a", "Employees are paid on the last Friday of the month."),
        ...     Skill("b-1", "b", "Do not store food in the laboratory refrigerator."),
        ... ]
        >>> ranker = MeaningRanker()
        >>> [skill.id for skill in ranker.best("On which day do I receive my pay?", skills, limit=3)]
        ['a-1']
        >>> ranker("Who painted the Mona Lisa?", skills)
        [0.0, 0.0]
    """

    def __init__(self) -> None:
        self._kept = KeptIndex(MeaningIndex())

    @staticmethod
    def index() -> MeaningIndex:
        """Return a new index that ranks in the same way."""
        return MeaningIndex()

    def __call__(self, query: str, skills: Sequence[Skill]) -> list[float]:
        """Return one score for each skill: 0 if it does not fit the question, else more."""
        return self._kept.scores(query, skills)

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> list[Skill]:
        """Return the skills that fit, those with the highest proven relevance first.

        Args:
            query: The question.
            skills: The skills, in the order of the skillbook.
            limit: The maximum number to return; there are fewer if fewer fit.
        """
        return self._kept.best(query, skills, limit)
