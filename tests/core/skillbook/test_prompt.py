"""Skills as text for a prompt."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace.retrieval import LexicalRanker
from ace.skillbook import Skillbook
from ace.skillbook.book import PromptFormat
from ace.skillbook.selection import estimate_tokens
from tests.core.skillbook.clocks import ticking

FORMATS: list[PromptFormat] = ["markdown", "xml", "toon", "json"]


@pytest.fixture
def book() -> Skillbook:
    book = Skillbook(clock=ticking())
    book.add_skill("geography", "Name the country before the city.", metadata={"helpful": 3, "harmful": 1})
    book.add_skill("arithmetic", "Carry the one.")
    book.add_skill("geography", 'A <b>"quoted"</b>, line\n## not a heading')
    return book


def test_markdown_keeps_a_content_inside_its_bullet(book: Skillbook) -> None:
    assert book.as_prompt() == (
        "## geography\n"
        "- [geography-00001] Name the country before the city. (helpful 3, harmful 1)\n"
        '- [geography-00003] A <b>"quoted"</b>, line\n  ## not a heading\n'
        "\n"
        "## arithmetic\n"
        "- [arithmetic-00002] Carry the one."
    )


def test_xml_and_json_can_be_parsed(book: Skillbook) -> None:
    skills = [(skill.id, skill.content) for skill in book]
    root = ElementTree.fromstring(book.as_prompt(format="xml"))
    assert sorted((element.attrib["id"], element.text) for element in root) == sorted(skills)
    assert sorted((row["id"], row["content"]) for row in json.loads(book.as_prompt(format="json"))) == sorted(skills)


def test_toon_has_a_table(book: Skillbook) -> None:
    lines = book.as_prompt(format="toon").splitlines()
    assert lines[0] == "skills[3]{id,section,content,helpful,harmful}:"
    assert lines[1] == "  geography-00001,geography,Name the country before the city.,3,1"
    assert len(lines) == 4


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_shows_every_id(book: Skillbook, format: PromptFormat) -> None:
    text = book.as_prompt(format=format)
    assert all(skill.id in text for skill in book)
    fitting = book.as_prompt(query="Which city is it in that country?", format=format)
    assert "geography-00001" in fitting and "arithmetic-00002" not in fitting


def test_what_is_no_format_or_budget_is_refused(book: Skillbook) -> None:
    with pytest.raises(ValueError, match="'yaml' is not a format"):
        book.as_prompt(format="yaml")  # type: ignore[arg-type]  # the wrong value is the point
    with pytest.raises(ValueError, match="budget"):
        book.as_prompt(budget_tokens=-1)


def test_a_query_puts_the_relevant_skills_first(book: Skillbook) -> None:
    assert book.as_prompt(query="Which city is it?").startswith("- [geography-00001]")
    assert book.as_prompt(query="How do I carry?").startswith("- [arithmetic-00002]")


def test_among_equally_relevant_skills_the_helpful_one_is_first() -> None:
    book = Skillbook()
    for _ in range(3):
        book.add_skill("a", "Check the units.")
    book.tag_skill("a-00003", "helpful", 5)
    book.tag_skill("a-00001", "harmful", 5)
    lines = book.as_prompt(query="units").splitlines()
    assert [line[3:10] for line in lines] == ["a-00003", "a-00002", "a-00001"]


def test_another_ranker_decides_when_it_is_given(book: Skillbook) -> None:
    text = book.as_prompt(query="x", ranker=lambda query, skills: [float(skill.id[-1]) for skill in skills])
    assert text.startswith("- [geography-00003]")
    with pytest.raises(ValueError, match="1 scores for 3 skills"):
        book.as_prompt(query="x", ranker=lambda query, skills: [1.0])


def words(text: str) -> int:
    return len(text.split())


def superadditive(text: str) -> int:
    """Count more tokens for the whole than for its parts, as tokenizers may do at seams."""
    return len(text) // 4 + text.count("\n") ** 2


@given(
    contents=st.lists(st.text(min_size=1).filter(str.strip), max_size=60),
    budget=st.integers(0, 400),
    query=st.sampled_from([None, "a", "check the units"]),
    format=st.sampled_from(FORMATS),
    counter=st.sampled_from([words, superadditive, estimate_tokens]),
)
@settings(max_examples=150, deadline=None)
def test_a_budget_is_never_exceeded(
    contents: list[str], budget: int, query: str | None, format: PromptFormat, counter: object
) -> None:
    assert callable(counter)
    book = Skillbook()
    for number, content in enumerate(contents):
        book.add_skill(f"section {number % 3}", content)
    assert counter(book.as_prompt(budget, query, format, count_tokens=counter)) <= budget


@pytest.mark.parametrize("query", [None, "case"])
def test_a_budget_is_used(query: str | None) -> None:
    book = Skillbook()
    for number in range(300):
        book.add_skill(f"section {number % 3}", f"In case {number} check twice.", metadata={"helpful": number})
    text = book.as_prompt(1000, query, count_tokens=words, ranker=lambda query, skills: [1.0] * len(skills))
    assert 950 < words(text) <= 1000
    assert "section-00300" in text and "section-00001" not in text
    assert book.as_prompt(10**9, count_tokens=words) == book.as_prompt()


def test_a_large_skill_does_not_keep_small_ones_out() -> None:
    book = Skillbook()
    book.add_skill("a", "word " * 500, metadata={"helpful": 9})
    book.add_skill("a", "Short one.")
    assert "a-00002" in book.as_prompt(50, count_tokens=words)


def test_cached_lines_equal_a_fresh_writing() -> None:
    chance = random.Random(7)
    book = Skillbook(clock=ticking())
    for step in range(600):
        ids = [skill.id for skill in book.skills(include_invalid=True)]
        action = chance.randrange(6) if ids else 0
        id = chance.choice(ids) if ids else ""
        if action <= 1:
            book.add_skill(f"section{chance.randrange(4)}", f"Do {step}.")
        elif action == 2:
            book.tag_skill(id, "helpful")
        elif action == 3:
            book.remove_skill(id, soft=chance.random() < 0.5)
        elif action == 4:
            book.update_skill(id, content=f"Changed {step}.", section=chance.choice([None, "section1"]))
        else:
            format = chance.choice(FORMATS)
            assert book.as_prompt(format=format) == Skillbook.loads(book.dumps()).as_prompt(format=format)
    assert book.as_prompt() == Skillbook.loads(book.dumps()).as_prompt()


def test_the_ranker_follows_changes_of_the_book() -> None:
    ranker = LexicalRanker()
    book = Skillbook(ranker=ranker)
    book.add_skill("a", "Sort the list.")
    book.add_skill("a", "Name the capital.")
    assert book.as_prompt(query="capital").startswith("- [a-00002]")
    book.update_skill("a-00001", content="Capital letters first: capital, capital.")
    book.remove_skill("a-00002")
    assert book.as_prompt(query="capital") == "- [a-00001] Capital letters first: capital, capital."
    assert ranker("list", book.skills()) == [0.0]
