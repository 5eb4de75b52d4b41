"""The published recall and precision of the finder of personal data are those that are measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ace.redaction import Finding, Redactor
from benchmarks.personal_data import SEED, generated, measured, missed, tables

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "privacy.md"


def test_the_page_says_what_is_measured() -> None:
    published = tables(generated(), Redactor(thorough=True).find)
    assert published in PAGE.read_text(encoding="utf-8"), f"docs/explanation/privacy.md must contain:\n{published}"


def test_there_are_a_hundred_texts_of_each_of_five_kinds() -> None:
    texts = generated()
    assert sorted(Counter(text.kind for text in texts).values()) == [100] * 5
    assert all(text.values for text in texts)
    assert texts == generated(SEED) != generated(SEED + 1)


def test_a_finder_that_finds_nothing_or_everything_is_seen() -> None:
    texts = generated(count=20)
    nothing = measured(texts, lambda text: [])
    assert nothing["recall"].found == 0
    assert "precision" not in nothing
    everything = measured(texts, lambda text: [Finding(0, len(text), "secret", "all")])
    assert everything["recall"].found == everything["recall"].of
    half = measured(texts, lambda text: [Finding(0, len(text) // 2, "secret", "the first half")])
    assert 0 < half["recall"].found < half["recall"].of
    assert missed(texts, lambda text: []) != missed(texts, Redactor(thorough=True).find)
