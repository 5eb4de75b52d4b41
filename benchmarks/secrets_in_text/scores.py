"""The scores of a finder on the sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from benchmarks.secrets_in_text import fifth, first, fourth, second, third
from benchmarks.secrets_in_text.texts import Planted


class Found(Protocol):
    """What a finder returns."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


Find = Callable[[str], Iterable[Found]]


class Set(NamedTuple):
    """The texts of a set, and how many planted and innocent ones of it were found in the first run."""

    name: str
    planted: list[Planted]
    innocent: list[str]
    at_first: tuple[int, int]


SETS: Final = (
    Set("first", first.planted_texts(), first.innocent_texts(), (67, 5)),
    Set("second", second.planted_texts(), second.innocent_texts(), (28, 0)),
    Set("third", third.planted_texts(), third.innocent_texts(), (28, 0)),
    Set("fourth", fourth.planted_texts(), fourth.innocent_texts(), (30, 0)),
    Set("fifth", fifth.planted_texts(), fifth.innocent_texts(), (34, 0)),
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
        (
            texts.name,
            f"{texts.at_first[0]} of {len(texts.planted)}",
            f"{texts.at_first[1]} of {len(texts.innocent)}",
            f"{len(texts.planted) - len(missed(texts.planted, find))} of {len(texts.planted)}",
            f"{len(false(texts.innocent, find))} of {len(texts.innocent)}",
        )
        for texts in SETS
    ]
    head = ("set", "planted, found at first", "innocent, redacted at first", "planted, found", "innocent, redacted")
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
