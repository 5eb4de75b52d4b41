"""Which texts count as the same wording."""

from __future__ import annotations

import pytest

from ace.deduplication.wording import telling_words


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Check the units.", "check units"),
        ("Don't guess!", "don't   guess"),
        ("Sort the lists, then search.", "Sort the list then search"),
        ("Call `sort` first", "call `sort` first."),
        ("cafe\u0301 opens", "caf\u00e9 opens"),
    ],
)
def test_the_same_wording(first: str, second: str) -> None:
    assert telling_words(first) == telling_words(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use x != 1", "Use x == 1"),
        ("Retry 3 times", "Retry 5 times"),
        ("Retry after -1", "Retry after 1"),
        ("Always check", "Never check"),
        ("Do not retry", "Do retry"),
        ("Check A before B", "Check B before A"),
        ("Write it in C++", "Write it in C"),
        ("Call `List`", "Call `list`"),
        ("Use string", "Use str"),
        ("Check !done", "Check done"),
    ],
)
def test_another_wording(first: str, second: str) -> None:
    assert telling_words(first) != telling_words(second)


@pytest.mark.parametrize("text", ["the", "...", "?", "`", "a the"])
def test_every_text_has_telling_words(text: str) -> None:
    assert telling_words(text)
