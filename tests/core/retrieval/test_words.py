"""Which forms of a word count as one."""

from __future__ import annotations

import pytest

from ace.retrieval import LexicalRanker, words
from ace.skill import Skill


@pytest.mark.parametrize(
    "forms",
    [
        "file files filing filed",
        "price prices priced pricing",
        "query queries queried querying",
        "try tries tried trying",
        "class classes",
        "process processes processed processing",
        "status statuses",
        "box boxes",
        "string strings",
        "stop stops stopped stopping",
        "pass passes passed passing",
        "need needs needed",
        "add adds added adding",
        "key keys",
        "use uses",
    ],
)
def test_the_forms_of_a_word_are_one(forms: str) -> None:
    assert len(set(words(forms))) == 1, words(forms)


def test_short_words_and_other_words_stay_apart() -> None:
    for text in ("his he", "red re", "bus bu", "this th", "thing th", "date day"):
        assert len(set(words(text))) == 2, words(text)


def test_a_question_in_the_singular_finds_a_skill_in_the_plural() -> None:
    skills = [
        Skill("a-00001", "a", "List the folder first."),
        Skill("a-00002", "a", "Name the files by date."),
        Skill("a-00003", "a", "Round the totals."),
    ]
    assert [skill.id for skill in LexicalRanker().best("Which file?", skills, 1)] == ["a-00002"]
