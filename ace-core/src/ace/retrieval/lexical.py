"""Lexical retrieval with BM25, without a model or a dependency, weighted by how helpful each skill has been."""

from __future__ import annotations

import heapq
import math
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from ace.arguments import checked_class
from ace.skill import Skill

__all__ = ["LexicalRanker", "helpfulness", "proven_relevance", "words"]

_WORD = re.compile(r"\w+")
_VOWEL = re.compile(r"[aeiouy]")
_NO_PLURAL = ("ss", "us", "is")
_STAYS_DOUBLE = "aeioulsz"
_SHORTEST = 3
"""The minimum length of a stem, in letters."""


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, stemmed by removing common English endings.

    All forms of a word have the same stem, which need not be a word itself.

    Example:
        >>> words("Checking the capitals")
        ['check', 'the', 'capital']
        >>> words("files") == words("file"), words("queries") == words("query"), words("stopped") == words("stop")
        (True, True, True)
    """
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    if len(word) > _SHORTEST and word.endswith("s") and not word.endswith(_NO_PLURAL):
        word = word[:-1]
    for ending in ("ing", "ed"):
        left = word.removesuffix(ending)
        if left != word and len(left) >= _SHORTEST and _VOWEL.search(left):
            is_doubled = len(left) > _SHORTEST and left[-1] == left[-2] and left[-1] not in _STAYS_DOUBLE
            word = left[:-1] if is_doubled else left
            break
    # "file" meets "filing" and "boxes" meets "box"; "query" meets "querie", which is left of "queries".
    if len(word) > _SHORTEST and word.endswith("e"):
        word = word[:-1]
    return f"{word[:-1]}i" if len(word) >= _SHORTEST and word.endswith("y") else word


WEIGHT: Final = 0.25
"""The share by which relevance increases for a skill that always helped, and decreases for one that always harmed."""


def helpfulness(skill: Skill) -> float:
    """Return how helpful a skill has been by its counters, between -1 and 1; 0 for an untried one.

    Example:
        >>> helpfulness(Skill("a-00001", "a", "Sort first.", helpful=6))
        0.75
    """
    return (skill.helpful - skill.harmful) / (skill.helpful + skill.harmful + 2)


def proven_relevance(relevance: float, skill: Skill) -> float:
    """Return the relevance, increased for a helpful skill and decreased for a harmful one.

    Args:
        relevance: The score of a ranker, at least 0.
        skill: The skill.

    Example:
        >>> proven_relevance(2.0, Skill("a-00001", "a", "Sort first.", helpful=6))
        2.375
    """
    return relevance * (1 + WEIGHT * helpfulness(skill))


_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
_ROUNDING = 1e-9


@checked_class
@final
class LexicalRanker:
    """Scores skills against a question with Okapi BM25, over section, content and the questions of its cases.

    Keeps an index of the skills, so that a further question only takes a lookup of its words.

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
        self._last: list[Skill] = []
        self._places: dict[str, int] = {}
        self._shortest = 0

    def __call__(self, query: str, skills: Sequence[Skill]) -> list[float]:
        """Return one score for each skill: 0 if it shares no significant word with the question, else more."""
        relevance = [0.0] * len(skills)
        with self._lock:
            self._index(skills)
            for term in self._terms(query):
                for id in term.postings:
                    relevance[self._places[id]] += self._part(term, id)
        return relevance

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> list[Skill]:
        """Return the skills with the highest proven relevance, exactly, the best first.

        The rarest words are looked up first. As soon as the remaining, more common words cannot lift another skill
        among the best, only the skills found so far are scored further.

        Args:
            query: The question.
            skills: The skills, in the order of the skillbook.
            limit: The maximum number to return; if too few are relevant, the most helpful others are added.
        """
        if limit < 1:
            return []
        with self._lock:
            self._index(skills)
            relevance = self._relevance_of_best(self._terms(query), limit)
            found = sorted(relevance, key=lambda id: self._order(id, relevance[id]))[:limit]
            if len(found) < limit:
                rest = (skill.id for skill in skills if skill.id not in relevance)
                found += heapq.nsmallest(limit - len(found), rest, key=lambda id: self._order(id, 0.0))
            return [self._indexed[id] for id in found]

    def _relevance_of_best(self, terms: Sequence[_Term], limit: int) -> dict[str, float]:
        relevance: dict[str, float] = {}
        left = sum(term.most for term in terms)
        for term in terms:
            if self._is_beyond(left * (1 + WEIGHT), relevance, limit):
                for id in relevance.keys() & term.postings.keys():
                    relevance[id] += self._part(term, id)
            else:
                for id in term.postings:
                    relevance[id] = relevance.get(id, 0.0) + self._part(term, id)
            left -= term.most
        return relevance

    def _is_beyond(self, reachable: float, relevance: Mapping[str, float], limit: int) -> bool:
        """Whether `limit` skills already have a higher score than any skill not yet found can reach."""
        if len(relevance) < limit:
            return False
        proven = (proven_relevance(score, self._indexed[id]) for id, score in relevance.items())
        return heapq.nlargest(limit, proven)[-1] > reachable + _ROUNDING

    def _order(self, id: str, relevance: float) -> tuple[float, float, int]:
        skill = self._indexed[id]
        return -proven_relevance(relevance, skill), -helpfulness(skill), self._places[id]

    def _index(self, skills: Sequence[Skill]) -> None:
        # Skills are immutable, so comparing two lists mostly compares identities.
        if skills == self._last:
            return
        self._take_over(skills)
        self._last = list(skills)
        self._places = {skill.id: place for place, skill in enumerate(skills)}
        self._shortest = min(self._lengths.values(), default=0)

    def _take_over(self, skills: Sequence[Skill]) -> None:
        indexed = self._indexed
        for skill in skills:
            known = indexed.get(skill.id)
            if known is skill:
                continue
            if known is not None and _is_searched_alike(known, skill):
                indexed[skill.id] = skill
                continue
            self._forget(skill.id)
            self._learn(skill)
        if len(indexed) > len(skills):
            current = {skill.id for skill in skills}
            for id in [id for id in indexed if id not in current]:
                self._forget(id)

    def _learn(self, skill: Skill) -> None:
        counts = Counter(words(_text(skill)))
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

    def _terms(self, query: str) -> list[_Term]:
        """Return the significant words of the question, the rarest first.

        A word that most skills contain is not significant if there is a rarer one.
        """
        size = len(self._last)
        found = [self._postings[word] for word in sorted(set(words(query))) if word in self._postings]
        rarer = [postings for postings in found if len(postings) * 2 <= size]
        return [self._term(postings, size) for postings in sorted(rarer or found, key=len)]

    def _term(self, postings: Mapping[str, int], size: int) -> _Term:
        weight = math.log(1 + (size - len(postings) + 0.5) / (len(postings) + 0.5)) * (_SATURATION + 1)
        return _Term(postings, weight, most=weight * self._saturated(max(postings.values()), self._shortest))

    def _part(self, term: _Term, id: str) -> float:
        return term.weight * self._saturated(term.postings[id], self._lengths[id])

    def _saturated(self, count: int, length: int) -> float:
        mean_length = self._total_length / len(self._last) or 1.0
        return count / (count + _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length / mean_length))


def _is_searched_alike(first: Skill, second: Skill) -> bool:
    if first.content != second.content or first.section != second.section:
        return False
    return first.cases == second.cases or _text(first) == _text(second)


def _text(skill: Skill) -> str:
    """Return the searchable text of a skill. A question that its content quotes counts once."""
    text = f"{skill.section} {skill.content}"
    asked = dict.fromkeys(case.question for case in skill.cases if case.question not in text)
    return " ".join((text, *asked)) if asked else text


class _Term(NamedTuple):
    """One word of a question."""

    postings: Mapping[str, int]
    """The skills that contain it, with the number of occurrences."""
    weight: float
    most: float
    """The maximum that it adds to the relevance of a skill."""
