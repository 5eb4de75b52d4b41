"""Lexical retrieval with BM25, without a model or a dependency, weighted by how helpful each skill has been."""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest, nsmallest
from itertools import compress
from operator import is_not
from typing import Final, NamedTuple, Protocol, final

from ace._internal.arguments import checked_class
from ace.skill import Skill

__all__ = [
    "SATURATION",
    "WEIGHT",
    "Differences",
    "KeptIndex",
    "LexicalIndex",
    "LexicalRanker",
    "SkillIndex",
    "differences",
    "helpfulness",
    "proven_relevance",
    "rarity",
    "saturated",
    "searched_text",
    "words",
]

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

    Example:
        >>> proven_relevance(2.0, Skill("a-00001", "a", "Sort first.", helpful=6))
        2.375
    """
    return relevance * (1 + WEIGHT * helpfulness(skill))


SATURATION: Final = 1.2
_LENGTH_WEIGHT = 0.75
_ROUNDING = 1e-9
_COMMON = 64
"""The skills of a word that more of them contain than this are kept by their share of the relevance."""

_Group = dict[str, None]
"""Skills that contain a word equally often and are equally long: the word adds the same to the relevance of each."""


@final
class LexicalIndex:
    """The words of a changing set of skills. It is not thread-safe.

    A change takes as long as the skill has words, and a question as long as skills have its rarer words, however many
    other skills there are.

    Example:
        >>> index = LexicalIndex()
        >>> index.put(Skill("a-1", "a", "Sort the list first."), 0)
        >>> index.put(Skill("b-1", "b", "Name the capital."), 1)
        >>> index.best("Which capital?", limit=1)
        ['b-1']
        >>> index.remove("b-1")
        >>> index.best("Which capital?", limit=1)
        []
    """

    def __init__(self) -> None:
        self._skills: dict[str, Skill] = {}
        self._places: dict[str, int] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._lengths: dict[str, int] = {}
        self._total_length = 0
        self._postings: dict[str, dict[str, int]] = {}
        self._groups: dict[str, dict[tuple[int, int], _Group]] = {}
        """For each common word of an earlier question: its skills by number of occurrences and length."""
        self._by_helpfulness: list[tuple[float, int, str]] = []

    def __len__(self) -> int:
        return len(self._skills)

    def __contains__(self, skill_id: object) -> bool:
        """Return whether the skill is in the index."""
        return skill_id in self._skills

    def put(self, skill: Skill, place: int) -> None:
        """Add a skill, or replace the one with its id.

        Args:
            place: Its place in the order of the skills; of two that are equally relevant and helpful, the one with the
                lower place comes first. No other skill has it.
        """
        id = skill.id
        known = self._skills.get(id)
        if known is None:
            insort(self._by_helpfulness, (-helpfulness(skill), place, id))
            self._skills[id], self._places[id] = skill, place
            self._learn(skill)
            return
        before, after = (-helpfulness(known), self._places[id], id), (-helpfulness(skill), place, id)
        if before != after:
            del self._by_helpfulness[bisect_left(self._by_helpfulness, before)]
            insort(self._by_helpfulness, after)
        self._skills[id], self._places[id] = skill, place
        if known is not skill and not _is_searched_alike(known, skill):
            self._forget(id)
            self._learn(skill)

    def replace(self, skill: Skill) -> None:
        """Replace the skill with the same id, which is in the index, in its place."""
        self.put(skill, self._places[skill.id])

    def hold(self, skills: Sequence[Skill], places: Sequence[int]) -> None:
        """Make these the skills of the index. Those that it has already are not read again.

        Args:
            skills: All skills.
            places: Their places, as for `put`.
        """
        wanted = {skill.id for skill in skills}
        for id in [id for id in self._skills if id not in wanted]:
            del self._skills[id]
            self._forget(id)
        for skill in skills:
            known = self._skills.get(skill.id)
            if known is not skill:
                if known is None:
                    self._learn(skill)
                elif not _is_searched_alike(known, skill):
                    self._forget(skill.id)
                    self._learn(skill)
                self._skills[skill.id] = skill
        self._places = {skill.id: place for skill, place in zip(skills, places, strict=True)}
        self._by_helpfulness = sorted((-helpfulness(self._skills[id]), place, id) for id, place in self._places.items())

    def skill(self, skill_id: str) -> Skill:
        """Return a skill as it was put in."""
        return self._skills[skill_id]

    def remove(self, skill_id: str) -> None:
        """Remove a skill; one that is not there is ignored."""
        skill = self._skills.pop(skill_id, None)
        if skill is not None:
            key = -helpfulness(skill), self._places.pop(skill_id), skill_id
            del self._by_helpfulness[bisect_left(self._by_helpfulness, key)]
            self._forget(skill_id)

    def scores(self, query: str) -> dict[str, float]:
        """Return the relevance of each skill that shares a significant word with the question, by id."""
        relevance: dict[str, float] = {}
        for term in self._terms(query):
            self._add(term, relevance)
        return relevance

    def shares(self, query: str) -> dict[str, float]:
        """Return which share of the highest possible relevance each skill has that shares a significant word, by id.

        A word of the question that no skill has counts as the rarest.
        """
        size = len(self._skills)
        terms = self._terms(query)
        unknown = sum(word not in self._postings for word in set(words(query)))
        most = sum(rarity(len(term.postings), size) for term in terms) + unknown * rarity(0, size)
        relevance: dict[str, float] = {}
        for term in terms:
            self._add(term, relevance)
        return {id: score / most / (SATURATION + 1) for id, score in relevance.items()}

    def best(self, query: str, limit: int) -> list[str]:
        """Return the ids of the relevant skills with the highest proven relevance, exactly, the best first.

        The rarest words are looked up first. As soon as the remaining, more common words cannot lift another skill
        among the best, only the skills found so far are scored further.

        Args:
            query: The question.
            limit: The maximum number to return; there are fewer if fewer are relevant.
        """
        if limit < 1 or not self._skills:
            return []
        relevance = self._relevance_of_best(self._terms(query), limit)
        return nsmallest(limit, relevance, key=lambda id: self._order(id, relevance[id]))

    def by_relevance(self, relevance: Mapping[str, float]) -> list[str]:
        """Return the ids, those with the highest proven relevance first.

        Args:
            relevance: The relevance of skills of the index, by id.
        """
        return sorted(relevance, key=lambda id: self._order(id, relevance[id]))

    def in_order(self, query: str, ids: Collection[str]) -> list[str]:
        """Return some of the skills, those with the highest proven relevance first.

        Args:
            query: The question.
            ids: Their ids.
        """
        relevance = dict.fromkeys(ids, 0.0)
        for term in self._terms(query):
            self._add_to_known(term, relevance)
        return self.by_relevance(relevance)

    def _relevance_of_best(self, terms: Sequence[_Term], limit: int) -> dict[str, float]:
        """Return the relevance of enough skills to contain the best ones."""
        relevance: dict[str, float] = {}
        left = math.fsum(term.most for term in terms)
        # How much the most helpful skill is lifted by its counters.
        boost = 1 + WEIGHT * -self._by_helpfulness[0][0]
        least = 0.0
        for term in terms:
            if len(relevance) >= limit:
                least = max(least, self._proven_by(relevance, limit) - _ROUNDING)
                # What cannot become one of the best any more is not scored further.
                if left * boost < least:
                    relevance = {id: score for id, score in relevance.items() if (score + left) * boost >= least}
            if left * boost < least:
                self._add_to_known(term, relevance)
                left -= term.most
                continue
            left -= term.most
            self._add(term, relevance, at_least=least / boost - left)
        if len(relevance) > limit:
            least = self._proven_by(relevance, limit) - _ROUNDING
            relevance = {id: score for id, score in relevance.items() if score * boost >= least}
        return relevance

    def _proven_by(self, relevance: Mapping[str, float], limit: int) -> float:
        """Return a proven relevance that at least `limit` skills have."""
        highest = nlargest(limit, zip(relevance.values(), relevance, strict=True))
        return min(proven_relevance(score, self._skills[id]) for score, id in highest)

    def _order(self, id: str, relevance: float) -> tuple[float, float, int]:
        skill = self._skills[id]
        return -proven_relevance(relevance, skill), -helpfulness(skill), self._places[id]

    def _learn(self, skill: Skill) -> None:
        id = skill.id
        counts = self._counts[id] = Counter(words(searched_text(skill)))
        length = self._lengths[id] = counts.total()
        self._total_length += length
        for word, count in counts.items():
            self._postings.setdefault(word, {})[id] = count
            if word in self._groups:
                self._groups[word].setdefault((count, length), {})[id] = None

    def _forget(self, id: str) -> None:
        length = self._lengths.pop(id)
        self._total_length -= length
        for word, count in self._counts.pop(id).items():
            del self._postings[word][id]
            if word in self._groups:
                group = self._groups[word][count, length]
                del group[id]
                if not group:
                    del self._groups[word][count, length]
            if not self._postings[word]:
                del self._postings[word]
                self._groups.pop(word, None)

    def _terms(self, query: str) -> list[_Term]:
        """Return the significant words of the question, the rarest first.

        A word that most skills contain is not significant if there is a rarer one.
        """
        size = len(self._skills)
        found = [word for word in sorted(set(words(query))) if word in self._postings]
        rarer = [word for word in found if len(self._postings[word]) * 2 <= size]
        return [self._term(word) for word in sorted(rarer or found, key=lambda word: len(self._postings[word]))]

    def _term(self, word: str) -> _Term:
        postings, size = self._postings[word], len(self._skills)
        weight = rarity(len(postings), size) * (SATURATION + 1)
        mean_length = self._total_length / size or 1.0
        groups = self._groups_of(word, postings)
        parts = {group: weight * saturated(*group, mean_length) for group in groups}
        ordered = sorted(((part, groups[group]) for group, part in parts.items()), key=lambda pair: -pair[0])
        return _Term(postings, parts, ordered, most=ordered[0][0])

    def _groups_of(self, word: str, postings: Mapping[str, int]) -> dict[tuple[int, int], _Group]:
        groups = self._groups.get(word)
        if groups is None:
            groups = {}
            lengths = self._lengths
            for id, count in postings.items():
                key = count, lengths[id]
                if key in groups:
                    groups[key][id] = None
                else:
                    groups[key] = {id: None}
            if len(postings) > _COMMON:
                self._groups[word] = groups
        return groups

    def _add(self, term: _Term, relevance: dict[str, float], at_least: float = 0.0) -> None:
        """Add what a word contributes to the relevance of skills.

        Args:
            term: The word.
            relevance: The relevance by id. A skill to which the word contributes less than `at_least` is not added.
            at_least: See above.
        """
        known = relevance.get
        for place, (part, ids) in enumerate(term.groups):
            if part < at_least:
                rest = _Term(term.postings, term.parts, term.groups[place:], part)
                self._add_to_known(rest, relevance)
                return
            for id in ids:
                relevance[id] = known(id, 0.0) + part

    def _add_to_known(self, term: _Term, relevance: dict[str, float]) -> None:
        """Add what a word contributes to the relevance of the skills that were found by other words."""
        lengths, least = self._lengths, term.most
        for id in [id for id in relevance if id in term.postings]:
            part = term.parts[term.postings[id], lengths[id]]
            if part <= least:
                relevance[id] += part


def rarity(holders: int, size: int) -> float:
    """Return the weight of a word that so many skills of a set of this size contain."""
    return math.log(1 + (size - holders + 0.5) / (holders + 0.5))


def saturated(count: int, length: int, mean_length: float) -> float:
    """Return what the occurrences of a word in a text of so many words add to its relevance, below 1."""
    return count / (count + SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length / mean_length))


class _Term(NamedTuple):
    """One word of a question."""

    postings: Mapping[str, int]
    """The skills that contain it, with the number of occurrences."""
    parts: Mapping[tuple[int, int], float]
    """What it adds to the relevance of a skill, by number of occurrences and length."""
    groups: Sequence[tuple[float, _Group]]
    """The skills by what it adds to their relevance, the most first."""
    most: float
    """The maximum that it adds to the relevance of a skill."""


class SkillIndex(Protocol):
    """An index of a changing set of skills; see `LexicalIndex`. It is not thread-safe."""

    def __len__(self) -> int: ...

    def put(self, skill: Skill, place: int) -> None:
        """Add a skill, or replace the one with its id."""
        ...

    def replace(self, skill: Skill) -> None:
        """Replace the skill with the same id in its place."""
        ...

    def remove(self, skill_id: str) -> None:
        """Remove a skill; one that is not there is ignored."""
        ...

    def hold(self, skills: Sequence[Skill], places: Sequence[int]) -> None:
        """Make these the skills of the index."""
        ...

    def skill(self, skill_id: str) -> Skill:
        """Return a skill as it was put in."""
        ...

    def scores(self, query: str) -> Mapping[str, float]:
        """Return the relevance of each skill that is relevant to the question, by id."""
        ...

    def best(self, query: str, limit: int) -> list[str]:
        """Return the ids of the relevant skills with the highest proven relevance, the best first."""
        ...

    def in_order(self, query: str, ids: Collection[str]) -> list[str]:
        """Return some of the skills, those with the highest proven relevance first."""
        ...


@final
class KeptIndex:
    """An index that follows a list of skills from question to question. It is thread-safe.

    Args:
        index: An empty index.
    """

    def __init__(self, index: SkillIndex) -> None:
        self._lock = threading.Lock()
        self._index = index
        self._last: list[Skill] = []
        self._next_place = 0

    def scores(self, query: str, skills: Sequence[Skill]) -> list[float]:
        """Return one score for each skill, 0 for those that are not relevant."""
        with self._lock:
            self._read(skills)
            scores = self._index.scores(query)
        return [scores.get(skill.id, 0.0) for skill in skills]

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> list[Skill]:
        """Return the relevant skills with the highest proven relevance, the best first."""
        with self._lock:
            self._read(skills)
            return [self._index.skill(id) for id in self._index.best(query, limit)]

    def _read(self, skills: Sequence[Skill]) -> None:
        """Bring the index up to date. Skills that have not changed only cost a comparison of their identities."""
        found = differences(self._last, skills) if len(self._last) == len(self._index) else None
        if found is None:
            self._index.hold(skills, range(len(skills)))
            self._next_place = len(skills)
        else:
            for skill in found.removed:
                self._index.remove(skill.id)
            for skill in found.changed:
                self._index.replace(skill)
            for skill in found.added:
                self._index.put(skill, self._next_place)
                self._next_place += 1
            if not any(found):
                return
        self._last = list(skills)


@checked_class
@final
class LexicalRanker:
    """Scores skills against a question with Okapi BM25, over section, content and the questions of its cases.

    Keeps an index of the skills, so that a further question only takes a lookup of its words. It needs no word vectors;
    `MeaningRanker` also finds skills in other words.

    Example:
        >>> book = [Skill("a-1", "a", "Sort the list first."), Skill("b-1", "b", "Name the capital.")]
        >>> scores = LexicalRanker()("Which capital?", book)
        >>> scores[0] == 0.0, scores[1] > 0
        (True, True)
    """

    def __init__(self) -> None:
        self._kept = KeptIndex(LexicalIndex())

    @staticmethod
    def index() -> LexicalIndex:
        """Return a new index that ranks in the same way."""
        return LexicalIndex()

    def __call__(self, query: str, skills: Sequence[Skill]) -> list[float]:
        """Return one score for each skill: 0 if it shares no significant word with the question, else more."""
        return self._kept.scores(query, skills)

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> list[Skill]:
        """Return the skills that share a significant word, those with the highest proven relevance first.

        Args:
            query: The question.
            skills: The skills, in the order of the skillbook.
            limit: The maximum number to return; there are fewer if fewer are relevant.
        """
        return self._kept.best(query, skills, limit)


def _is_searched_alike(first: Skill, second: Skill) -> bool:
    if first.content != second.content or first.section != second.section:
        return False
    return first.cases == second.cases or searched_text(first) == searched_text(second)


def searched_text(skill: Skill) -> str:
    """Return the searchable text of a skill. A question that its content quotes counts once."""
    text = f"{skill.section} {skill.content}"
    asked = dict.fromkeys(case.question for case in skill.cases if case.question not in text)
    return " ".join((text, *asked)) if asked else text


_AT_ONCE: Final = 1024
_FEW: Final = 1000
_FEW_REMOVED: Final = 32
"""After each removed skill, the lists are aligned again."""


class Differences(NamedTuple):
    """The difference between two lists of skills: changes in place, removals, and additions at the end."""

    removed: Sequence[Skill]
    changed: Sequence[Skill]
    """The new values of changed skills."""
    added: Sequence[Skill]


def differences(before: Sequence[Skill], after: Sequence[Skill]) -> Differences | None:
    """Return the difference between two lists, or None if it has more than a few steps.

    Unchanged skills only cost a comparison of their identities, in C.

    Args:
        before: The skills, each with its own id.
        after: The same later. A skill that moved is removed and added.

    Example:
        >>> one, two, three = (Skill(f"a-0000{number}", "a", "Check it.") for number in (1, 2, 3))
        >>> better = three.replace(helpful=1)
        >>> found = differences([one, two, three], [one, better, two])
        >>> [[skill.id for skill in part] for part in found]
        [['a-00002'], ['a-00003'], ['a-00002']]
    """
    removed: list[Skill] = []
    changed: list[Skill] = []
    old = new = 0
    while len(removed) <= _FEW_REMOVED:
        size = min(len(before) - old, len(after) - new)
        misaligned = _compared(before[old : old + size], after[new : new + size], changed)
        if len(changed) > _FEW:
            return None
        if misaligned is None:
            removed += before[old + size :]
            added = after[new + size :]
            return Differences(removed, changed, added) if len(removed) + len(added) <= _FEW else None
        removed.append(before[old + misaligned])
        old, new = old + misaligned + 1, new + misaligned
    return None


def _compared(before: Sequence[Skill], after: Sequence[Skill], changed: list[Skill]) -> int | None:
    """Note the changed skills of two lists of the same length; return where their ids differ, if they do."""
    for start in range(0, len(before), _AT_ONCE):
        some, others = before[start : start + _AT_ONCE], after[start : start + _AT_ONCE]
        if some == others:
            continue
        for place in compress(range(len(some)), map(is_not, some, others)):
            if some[place].id != others[place].id:
                return start + place
            changed.append(others[place])
    return None
