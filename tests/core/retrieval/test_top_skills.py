"""The best skills for a question, against the plain definition."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.retrieval import LexicalRanker, TopSkills, VectorRanker, helpfulness, proven_relevance
from ace.skill import Skill
from ace.skillbook import Skillbook

WORDS = st.lists(
    st.sampled_from(["sort", "list", "first", "name", "capital", "river", "check", "unit"]), min_size=1, max_size=6
)
CONTENTS = st.lists(st.tuples(WORDS.map(" ".join), st.integers(0, 3), st.integers(0, 3)), max_size=12)


def skills_of(contents: Sequence[tuple[str, int, int]]) -> list[Skill]:
    return [
        Skill(f"a-{number:05d}", "a", content, helpful=helpful, harmful=harmful)
        for number, (content, helpful, harmful) in enumerate(contents)
    ]


def plainly_best(scores: Sequence[float], skills: Sequence[Skill], limit: int) -> list[str]:
    def order(place: int) -> tuple[float, float, int]:
        skill = skills[place]
        return -round(proven_relevance(scores[place], skill), 6), -helpfulness(skill), place

    relevant = [place for place in range(len(skills)) if scores[place] > 0]
    return [skills[place].id for place in sorted(relevant, key=order)[:limit]]


class WordVectors:
    """Texts as the counts of their letters: similar words, similar vectors."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.asked += texts
        return [[1.0 + text.count(letter) for letter in "aeilnrst"] for text in texts]


@given(CONTENTS, WORDS.map(" ".join), st.integers(1, 15))
def test_the_best_by_words_are_those_with_the_highest_scores(
    contents: list[tuple[str, int, int]], query: str, limit: int
) -> None:
    skills, ranker = skills_of(contents), LexicalRanker()
    best = [skill.id for skill in ranker.best(query, skills, limit)]
    scores = dict(zip([skill.id for skill in skills], ranker(query, skills), strict=True))
    by_id = {skill.id: skill for skill in skills}
    expected = plainly_best(ranker(query, skills), skills, limit)
    # Equal scores may differ by rounding, so the order of such skills does not matter.
    assert [proven_relevance(scores[id], by_id[id]) for id in best] == pytest.approx(
        [proven_relevance(scores[id], by_id[id]) for id in expected]
    )


@given(CONTENTS, WORDS.map(" ".join), st.integers(1, 15))
def test_the_best_by_vectors_are_those_with_the_highest_cosines(
    contents: list[tuple[str, int, int]], query: str, limit: int
) -> None:
    skills, ranker = skills_of(contents), VectorRanker(WordVectors())
    best = [skill.id for skill in ranker.best(query, skills, limit)]
    scores = dict(zip([skill.id for skill in skills], ranker(query, skills), strict=True))
    by_id = {skill.id: skill for skill in skills}
    values = [proven_relevance(scores[id], by_id[id]) for id in best]
    assert values == pytest.approx(sorted(values, reverse=True), abs=1e-5)
    expected = sorted((proven_relevance(scores[skill.id], skill) for skill in skills), reverse=True)[:limit]
    assert values == pytest.approx(expected, abs=1e-5)


def test_a_common_word_decides_where_rare_ones_do_not() -> None:
    """Of 400 skills each has the common word once but for one, which is short and has it three times."""
    skills = [Skill(f"a-{n:05d}", "a", f"unit word{n} and more of it") for n in range(400)]
    skills += [Skill(f"b-{n:05d}", "b", f"other{n}") for n in range(500)]
    skills[123] = Skill("a-00123", "a", "unit unit unit")
    ranker = LexicalRanker()
    for query in ("unit word7", "unit", "word7 other8 unit"):
        best = [skill.id for skill in ranker.best(query, skills, 5)]
        assert best == plainly_best(ranker(query, skills), skills, 5)


def test_a_book_that_changes_is_ranked_as_it_is_now() -> None:
    book, top = Skillbook(), TopSkills(1)
    first = book.add_skill("a", "Name the capital.")
    assert [skill.id for skill in top("Which capital?", book)] == [first.id]
    better = book.add_skill("a", "Capital capital capital.")
    assert [skill.id for skill in top("Which capital?", book)] == [better.id]
    book.remove_skill(better.id)
    assert [skill.id for skill in top("Which capital?", book)] == [first.id]


def test_a_skill_that_helped_comes_before_one_as_relevant_that_harmed() -> None:
    book = Skillbook()
    harmful = book.add_skill("a", "Name the capital.", metadata={"harmful": 4})
    helpful = book.add_skill("a", "Name the capital!", metadata={"helpful": 4})
    assert [skill.id for skill in TopSkills(2)("Which capital?", book)] == [helpful.id, harmful.id]


def test_pinned_sections_come_first_whatever_the_question() -> None:
    book = Skillbook()
    rule = book.add_skill("house rules", "Answer in metric units.")
    capital = book.add_skill("geography", "Name the capital.")
    book.add_skill("geography", "Name the river.")
    chosen = TopSkills(2, pinned_sections=["house rules"])("Which capital?", book)
    assert [skill.id for skill in chosen] == [rule.id, capital.id]
    assert TopSkills(1, pinned_sections=["house rules"])("Which capital?", book) == [book.get_skill(rule.id)]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        TopSkills(0)


def test_a_skill_is_embedded_once_and_one_with_a_vector_not_at_all() -> None:
    model = WordVectors()
    own = array("f", [1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]).tobytes()
    skills = [Skill("a-00001", "a", "Sort the list."), Skill("a-00002", "a", "Eel.", embedding=own)]
    ranker = VectorRanker(model)
    assert [skill.id for skill in ranker.best("eee", skills, 1)] == ["a-00002"]
    skills.append(Skill("a-00003", "a", "Name it."))
    ranker.best("tt", skills, 1)
    assert model.asked == ["eee", "Sort the list.", "tt", "Name it."]
