"""Rankers that keep an index: after any changes, they find what the plain definition finds."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace.retrieval import LexicalRanker, VectorRanker, helpfulness, proven_relevance, words
from ace.retrieval.lexical import differences
from ace.skill import Skill

VOCABULARY = ["sort", "list", "first", "name", "capital", "river", "check", "unit", "the"]
TEXTS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6).map(" ".join)
QUERIES = st.lists(st.sampled_from([*VOCABULARY, "other"]), min_size=1, max_size=5).map(" ".join)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "insert", "tag", "write", "remove", "move", "vector"]),
        st.integers(0, 40),
        TEXTS,
    ),
    max_size=6,
)
ROUNDS = st.lists(st.tuples(CHANGES, QUERIES, st.integers(1, 12)), min_size=1, max_size=6)


def plain_scores(query: str, skills: Sequence[Skill]) -> list[float]:
    """Return BM25, computed for each skill from the beginning."""
    counted = [Counter(words(f"{skill.section} {skill.content}")) for skill in skills]
    lengths = [counts.total() for counts in counted]
    mean = sum(lengths) / len(skills) if skills else 0.0
    holders = {word: sum(word in counts for counts in counted) for word in sorted(set(words(query)))}
    found = {word: count for word, count in holders.items() if count}
    significant = {word: count for word, count in found.items() if count * 2 <= len(skills)} or found
    scores = [0.0] * len(skills)
    for word, count in sorted(significant.items(), key=lambda item: item[1]):
        weight = math.log(1 + (len(skills) - count + 0.5) / (count + 0.5)) * 2.2
        for place, counts in enumerate(counted):
            if word in counts:
                share = counts[word] / (counts[word] + 1.2 * (1 - 0.75 + 0.75 * lengths[place] / mean))
                scores[place] += weight * share
    return scores


def plain_best(scores: Sequence[float], skills: Sequence[Skill], limit: int) -> list[Skill]:
    def order(place: int) -> tuple[float, float, int]:
        return -proven_relevance(scores[place], skills[place]), -helpfulness(skills[place]), place

    relevant = [place for place in range(len(skills)) if scores[place] > 0]
    return [skills[place] for place in sorted(relevant, key=order)[:limit]]


def changed(skills: Sequence[Skill], changes: Sequence[tuple[str, int, str]], number: int) -> list[Skill]:
    result = list(skills)
    for step, (kind, at, text) in enumerate(changes):
        place = at % len(result) if result else 0
        new = Skill(f"a-{number}-{step}", "a", text)
        if kind == "add" or not result:
            result.append(new)
        elif kind == "insert":
            result.insert(place, new)
        elif kind == "tag":
            result[place] = result[place].replace(helpful=result[place].helpful + at % 3, harmful=at % 2)
        elif kind == "write":
            result[place] = result[place].replace(content=text, embedding=None)
        elif kind == "remove":
            del result[place]
        elif kind == "move":
            result.append(result.pop(place))
        else:
            numbers = array("f", [float(at), *(1.0 + text.count(letter) for letter in "eilrst")])
            result[place] = result[place].replace(embedding=numbers.tobytes())
    return result


class CountedLetters:
    """Texts as the counts of their letters."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[1.0 + text.count(letter) for letter in "aeilrst"] for text in texts]


@given(ROUNDS)
@settings(max_examples=300, deadline=None)
def test_words_are_found_as_if_the_index_were_new(rounds: list[tuple[list[tuple[str, int, str]], str, int]]) -> None:
    ranker = LexicalRanker()
    skills: list[Skill] = []
    for number, (changes, query, limit) in enumerate(rounds):
        skills = changed(skills, changes, number)
        scores = plain_scores(query, skills)
        assert ranker(query, skills) == scores
        best = ranker.best(query, skills, limit)
        assert [skill.id for skill in best] == [skill.id for skill in plain_best(scores, skills, limit)]


@given(ROUNDS)
@settings(max_examples=200, deadline=None)
def test_vectors_are_compared_as_if_they_were_new(rounds: list[tuple[list[tuple[str, int, str]], str, int]]) -> None:
    ranker = VectorRanker(CountedLetters())
    skills: list[Skill] = []
    for number, (changes, query, limit) in enumerate(rounds):
        skills = changed(skills, changes, number)
        fresh = VectorRanker(CountedLetters())
        assert ranker(query, skills) == pytest.approx(fresh(query, skills), abs=1e-6)
        found = ranker.best(query, skills, limit)
        scores = dict(zip((skill.id for skill in skills), fresh(query, skills), strict=True))
        values = [proven_relevance(scores[skill.id], skill) for skill in found]
        highest = sorted((proven_relevance(scores[skill.id], skill) for skill in skills), reverse=True)[:limit]
        assert values == pytest.approx(highest, abs=1e-5)
        assert all(skill in skills for skill in found)


@pytest.mark.parametrize("size", [3000])
def test_many_skills_are_found_while_they_change(size: int) -> None:
    """More skills share a word than are compared one by one, and more change than are noted one by one."""
    skills = [
        Skill(f"a-{number:05d}", "a", f"unit word{number % 50} check{number % 7}", helpful=number % 5 * (number % 3))
        for number in range(size)
    ]
    lexical, vectors = LexicalRanker(), VectorRanker(CountedLetters())
    for number in range(12):
        query = f"word{number} check{number % 7} unit"
        assert lexical.best(query, skills, 30) == plain_best(plain_scores(query, skills), skills, 30)
        assert vectors.best(query, skills, 5) == VectorRanker(CountedLetters()).best(query, skills, 5)
        skills = list(skills)
        for place in range(0, size, 100) if number % 4 == 0 else range(1500 if number == 6 else 3):
            skills[place] = skills[place].replace(content=f"unit word{number}", harmful=number % 2)
        del skills[number * 7 : number * 7 + (40 if number == 5 else 2)]
        skills.append(Skill(f"b-{number:05d}", "a", f"word{number} check{number}"))
        size = len(skills)


@given(ROUNDS)
def test_the_differences_lead_from_one_list_to_the_other(
    rounds: list[tuple[list[tuple[str, int, str]], str, int]],
) -> None:
    skills: list[Skill] = []
    for number, (changes, _, _) in enumerate(rounds):
        before, skills = skills, changed(skills, changes, number)
        found = differences(before, skills)
        assert found is not None
        gone = {skill.id for skill in found.removed}
        now = {skill.id: skill for skill in found.changed}
        assert [*(now.get(skill.id, skill) for skill in before if skill.id not in gone), *found.added] == skills
