"""Make texts fit a budget: the longest are cut in the middle, visibly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Fitted", "cut_middle", "fit"]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Texts that fit."""

    texts: tuple[str, ...]
    """The texts, in the order given, cut where necessary."""
    cuts: tuple[int, ...]
    """How many characters were cut out of each."""

    @property
    def cut_characters(self) -> int:
        """How many characters were cut out of all of them."""
        return sum(self.cuts)


def fit(texts: Sequence[str], most_bytes: int) -> Fitted:
    """Cut the longest texts, all to the same length, so that together they fit.

    Args:
        texts: The texts.
        most_bytes: The size of all of them together, in UTF-8 bytes.

    Example:
        >>> fit(["short", "x" * 500], 200).cut_characters
        350
    """
    sizes = [_size(text) for text in texts]
    if sum(sizes) <= most_bytes:
        return Fitted(tuple(texts), (0,) * len(texts))
    cap = _common_cap(sizes, most_bytes)
    cut = [cut_middle(text, cap) if size > cap else (text, 0) for text, size in zip(texts, sizes, strict=True)]
    return Fitted(tuple(text for text, _ in cut), tuple(count for _, count in cut))


def cut_middle(text: str, most_bytes: int) -> tuple[str, int]:
    """Keep head and tail of a text and mark what was cut between them.

    Args:
        text: The text.
        most_bytes: The size of the result in UTF-8 bytes; the mark itself takes some 40 and is always
            there.

    Returns:
        The cut text, and the number of characters that were cut.
    """
    data = text.encode("utf-8", "backslashreplace")
    room = max(0, most_bytes - _MARK_SIZE)
    if len(data) <= most_bytes:
        return text, 0
    head = data[: room - room // 2].decode("utf-8", "ignore")
    tail = data[len(data) - room // 2 :].decode("utf-8", "ignore") if room // 2 else ""
    count = len(text) - len(head) - len(tail)
    return f"{head}\n[... {count} characters cut here ...]\n{tail}", count


_MARK_SIZE = 45


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _common_cap(sizes: Sequence[int], most_bytes: int) -> int:
    """Return the length to which all longer texts are cut, so that all together fit."""
    left = most_bytes
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return share
        left -= size
    return max(ordered, default=0)
