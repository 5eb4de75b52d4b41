from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.roles.prompts import (
    SKILLBOOK_USAGE_INSTRUCTIONS,
    format_optional,
    make_skillbook_excerpt,
    wrap_skillbook_context,
    wrap_skillbook_for_external_agent,
)
from ace.skill import extract_cited_skill_ids
from ace.skillbook import Skillbook


@given(sections=st.lists(st.text(), min_size=1, max_size=5))
def test_every_id_that_a_book_makes_is_found(sections: list[str]) -> None:
    book = Skillbook()
    ids = [book.add_skill(section, f"content {number}").id for number, section in enumerate(sections)]
    assert extract_cited_skill_ids(" and ".join(f"[{skill_id}]" for skill_id in ids)) == ids
    assert extract_cited_skill_ids(f"see {', '.join(ids)}.") == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("no ids, 2026-11-21, call 555-1234, [1]", []),
        ("[b-00002] then [a-00001] then [b-00002]", ["b-00002", "a-00001"]),
        ("[a-00001, a-00002] (a-00003) `a-00004` **a-00005**", [f"a-0000{n}" for n in range(1, 6)]),
        (
            "[error-handling-00007] [api_v2-100000] [3d-00008]",
            ["error-handling-00007", "api_v2-100000", "3d-00008"],
        ),
        ("x-a-00001-b a-00001b", []),
    ],
)
def test_cited_ids(text: str, ids: list[str]) -> None:
    assert extract_cited_skill_ids(text) == ids


def test_ids_are_looked_for_in_a_text_only() -> None:
    with pytest.raises(TypeError, match="text must be a str, got None"):
        extract_cited_skill_ids(None)  # type: ignore[arg-type]  # the mistake that is tested


def test_long_texts_are_searched_in_one_go() -> None:
    for unit in ("a", "a-", "a_", "-0", "a-0000 ", "["):
        assert extract_cited_skill_ids(unit * 100_000 + " a-00001 ") == ["a-00001"]


def test_format_optional() -> None:
    assert [format_optional(value) for value in (None, "", "x")] == ["(none)", "(none)", "x"]


def test_an_excerpt_has_the_known_skills_once_in_the_order_asked() -> None:
    book = Skillbook()
    first, second = book.add_skill("a", "One.").id, book.add_skill("b", "Two.").id
    assert make_skillbook_excerpt(book, [second, "gone-00009", first, second]) == "[b-00002] Two.\n[a-00001] One."
    assert make_skillbook_excerpt(book, []) == ""


def test_skills_for_somebody_elses_agent() -> None:
    book = Skillbook()
    assert wrap_skillbook_for_external_agent(book) == ""
    skill = book.add_skill("maths", "Check units.")
    text = wrap_skillbook_context(book)
    assert text.startswith(SKILLBOOK_USAGE_INSTRUCTIONS)
    assert skill.id in text
    assert "Check units." in text
    for number in range(200):
        book.add_skill("maths", f"Strategy number {number} with some more words in it.")
    assert len(wrap_skillbook_context(book, budget_tokens=300)) < len(wrap_skillbook_context(book)) / 3
