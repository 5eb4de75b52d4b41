"""The scores of a finder on the sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from benchmarks.secrets_in_text import first, last, second, third
from benchmarks.secrets_in_text.texts import Planted


class Found(Protocol):
    """What a finder returns."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


Find = Callable[[str], Iterable[Found]]


class Set(NamedTuple):
    """The texts of a set."""

    name: str
    planted: list[Planted]
    innocent: list[str]


SETS: Final = (
    Set("first, written before the finder", first.planted_texts(), first.innocent_texts()),
    Set("second; at first, 28 and 0 were found", second.planted_texts(), second.innocent_texts()),
    Set("third; at first, 28 and 0 were found", third.planted_texts(), third.innocent_texts()),
    Set("last, run once", last.planted_texts(), last.innocent_texts()),
)


def missed(texts: Iterable[Planted], find: Find) -> list[Planted]:
    """Return the planted texts in which not all of the value is found."""
    return [
        text
        for text in texts
        if not any(found.start <= text.start and text.end <= found.end for found in find(text.text))
    ]


def false(texts: Iterable[str], find: Find) -> list[str]:
    """Return the innocent texts in which something is found."""
    return [text for text in texts if any(True for _ in find(text))]


def table(find: Find) -> str:
    """Return the table that is published."""
    rows = [
        f"| {name} | {len(planted) - len(missed(planted, find))} of {len(planted)} "
        f"| {len(false(innocent, find))} of {len(innocent)} |"
        for name, planted, innocent in SETS
    ]
    return "\n".join(("| set | planted, found | innocent, redacted |", "| --- | --- | --- |", *rows))
