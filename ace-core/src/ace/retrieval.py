"""Which skills belong to a question, by their words alone: no model, no dependency."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, final

from ace.skill import Skill


class HasSkills(Protocol):
    """What a retrieval reads: a skillbook, or a view of one."""

    def skills(self) -> Sequence[Skill]:
        """Return the active skills in the order of the book."""
        ...


_WORD = re.compile(r"\w+")
_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
_ENDINGS = ("ing", "ies", "ed", "es", "s")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without common English endings.

    Example:
        >>> words("Checking the capitals")
        ['check', 'the', 'capital']
    """
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@final
class LexicalRanker:
    """Scores skills against a question with Okapi BM25, over section and content.

    Keeps an index of the skills it has seen, so a second question costs its own words only.

    Example:
        >>> book = [Skill("a-1", "a", "Sort the list first."), Skill("b-1", "b", "Name the capital.")]
        >>> scores = LexicalRanker()("Which capital?", book)
        >>> scores[0] == 0.0, scores[1] > 0
        (True, True)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexed: dict[str, Skill] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._lengths: dict[str, int] = {}
        self._total_length = 0
        self._postings: dict[str, dict[str, int]] = {}

    def __call__(self, query: str, skills: Sequence[Skill]) -> list[float]:
        """Return one score for each skill: 0 if they share no word, else above 0."""
        with self._lock:
            self._index(skills)
            scores = self._scores(set(words(query)), len(skills))
        return [scores.get(skill.id, 0.0) for skill in skills]

    def _index(self, skills: Sequence[Skill]) -> None:
        indexed = self._indexed
        for skill in skills:
            known = indexed.get(skill.id)
            if known is skill:
                continue
            if known is not None and known.content == skill.content and known.section == skill.section:
                indexed[skill.id] = skill
                continue
            self._forget(skill.id)
            self._learn(skill)
        if len(indexed) > len(skills):
            current = {skill.id for skill in skills}
            for id in [id for id in indexed if id not in current]:
                self._forget(id)

    def _learn(self, skill: Skill) -> None:
        counts = Counter(words(f"{skill.section} {skill.content}"))
        self._indexed[skill.id] = skill
        self._counts[skill.id] = counts
        self._lengths[skill.id] = counts.total()
        self._total_length += counts.total()
        for word, count in counts.items():
            self._postings.setdefault(word, {})[skill.id] = count

    def _forget(self, id: str) -> None:
        if self._indexed.pop(id, None) is None:
            return
        self._total_length -= self._lengths.pop(id)
        for word in self._counts.pop(id):
            del self._postings[word][id]
            if not self._postings[word]:
                del self._postings[word]

    def _scores(self, query_words: set[str], size: int) -> dict[str, float]:
        scores: dict[str, float] = {}
        if not size:
            return scores
        mean_length = self._total_length / size or 1.0
        base = _SATURATION * (1 - _LENGTH_WEIGHT)
        slope = _SATURATION * _LENGTH_WEIGHT / mean_length
        for postings in self._telling_postings(query_words, size):
            weight = math.log(1 + (size - len(postings) + 0.5) / (len(postings) + 0.5)) * (_SATURATION + 1)
            for id, count in postings.items():
                scores[id] = scores.get(id, 0.0) + weight * count / (count + base + slope * self._lengths[id])
        return scores

    def _telling_postings(self, query_words: set[str], size: int) -> list[dict[str, int]]:
        """Return who has each word. A word that most skills have tells nothing if there is a rarer one."""
        found = [self._postings[word] for word in sorted(query_words) if word in self._postings]
        rarer = [postings for postings in found if len(postings) * 2 <= size]
        return rarer or found


@final
class TopSkills:
    """Chooses the skills that fit a question best, for `ACE.from_roles(retrieval=...)`.

    Of skills that fit equally well, those that helped more often come first.

    Args:
        limit: The most skills to choose, from 1.
        ranker: Scores skills against a question; by default their words (BM25).

    Raises:
        ValueError: The limit is below 1.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> book = Skillbook()
        >>> skills = [book.add_skill("a", text) for text in ("Sort the list first.", "Name the capital.")]
        >>> [skill.content for skill in TopSkills(1)("Which capital?", book)]
        ['Name the capital.']
    """

    def __init__(
        self, limit: int = 20, *, ranker: Callable[[str, Sequence[Skill]], Sequence[float]] | None = None
    ) -> None:
        if limit < 1:
            raise ValueError(f"the limit is a number of skills from 1, not {limit!r}")
        self.limit = limit
        self._ranker = LexicalRanker() if ranker is None else ranker

    def __call__(self, question: str, skillbook: HasSkills) -> list[Skill]:
        """Return the chosen skills, the best first."""
        skills = list(skillbook.skills())
        scores = self._ranker(question, skills)
        places = range(len(skills))
        best = sorted(places, key=lambda at: (-scores[at], skills[at].harmful - skills[at].helpful, at))
        return [skills[place] for place in best[: self.limit]]
