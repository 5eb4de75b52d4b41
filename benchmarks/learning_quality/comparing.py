"""How sure one can be of the difference between two methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ace.evaluation import mcnemar_test

__all__ = ["Pairing", "pairing"]


@dataclass(frozen=True)
class Pairing:
    """Two methods on the same questions; a question counts as right if more than half of the orders answer it so."""

    gained: int
    lost: int
    p: float
    """Of the exact McNemar test, two-sided."""


def pairing(before: Sequence[Sequence[bool]], after: Sequence[Sequence[bool]]) -> Pairing:
    """Compare two methods question by question.

    Args:
        before: For each order, whether each question is answered right by the first method.
        after: The same for the second method; the number of orders may differ.

    Example:
        >>> pairing([[False, False, True]], [[True, True, True], [True, False, True], [True, False, True]])
        Pairing(gained=1, lost=0, p=1.0)
    """
    old, new = _majority(before), _majority(after)
    gained = sum(now and not then for then, now in zip(old, new, strict=True))
    lost = sum(then and not now for then, now in zip(old, new, strict=True))
    return Pairing(gained, lost, mcnemar_test(old, new))


def _majority(orders: Sequence[Sequence[bool]]) -> list[bool]:
    return [fmean(answers) > 0.5 for answers in zip(*orders, strict=True)]
