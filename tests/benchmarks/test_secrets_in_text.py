"""What redaction finds in planted and innocent texts is what the page says, and is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.redaction import Finding, Redactor
from benchmarks.secrets_in_text.scores import SETS, Set, false, missed, table

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"


def test_the_page_says_what_is_measured() -> None:
    published = table(Redactor().find)
    assert published in PAGE.read_text(encoding="utf-8"), f"docs/explanation/security.md must contain:\n{published}"


def test_of_the_first_set_nearly_all_planted_texts_and_hardly_an_innocent_one_are_found() -> None:
    texts = SETS[0]
    assert (len(texts.planted), len(texts.innocent)) == (100, 300)
    assert len(missed(texts.planted, Redactor().find)) <= 5
    assert len(false(texts.innocent, Redactor().find)) <= 3


@pytest.mark.parametrize("texts", SETS, ids=lambda texts: texts.name)
def test_a_finder_that_finds_nothing_or_everything_is_seen(texts: Set) -> None:
    def everything(text: str) -> list[Finding]:
        return [Finding(0, len(text), "secret", "all")]

    assert missed(texts.planted, lambda text: []) == texts.planted
    assert false(texts.innocent, lambda text: []) == []
    assert missed(texts.planted, everything) == []
    assert false(texts.innocent, everything) == texts.innocent


@pytest.mark.parametrize("texts", SETS, ids=lambda texts: texts.name)
def test_no_planted_text_is_hidden_whole(texts: Set) -> None:
    wide = [
        text.text
        for text in texts.planted
        if len(text.text) > 1.5 * (text.end - text.start) + 20
        and any(found.start == 0 and found.end == len(text.text) for found in Redactor().find(text.text))
    ]
    assert wide == []
