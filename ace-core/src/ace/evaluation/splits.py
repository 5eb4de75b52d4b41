"""Splitting samples into three disjoint parts: for training, for validation and for the test."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ace._internal.arguments import checked_arguments
from ace.context import ACESample

__all__ = ["Splits", "check_disjoint", "split_samples"]

S = TypeVar("S", bound=ACESample)
S_co = TypeVar("S_co", bound=ACESample, covariant=True)


@dataclass(frozen=True, slots=True)
class Splits(Generic[S_co]):
    """Samples in three parts. No question with the same context is in two of them."""

    train: tuple[S_co, ...]
    """The samples to learn from."""
    validate: tuple[S_co, ...]
    """The samples that decide which state of the skillbook is kept."""
    test: tuple[S_co, ...]
    """The samples on which the effect is measured, once, at the end."""


@checked_arguments()
def split_samples(samples: Sequence[S], *, validate: float = 0.2, test: float = 0.2, seed: int = 0) -> Splits[S]:
    """Split samples at random. Those with the same question and context stay together.

    Each part keeps the order of the input, and has its share to within the size of one such group.

    Args:
        validate: The share of the second part, from 0 to 1.
        test: The share of the third part.
        seed: The same seed splits the same samples in the same way.

    Raises:
        ValueError: A share is out of range, or there are too few different samples for the requested parts.

    Example:
        >>> from ace.environments import Sample
        >>> parts = split_samples([Sample(f"{n}+{n}?") for n in range(10)])
        >>> len(parts.train), len(parts.validate), len(parts.test)
        (6, 2, 2)
    """
    for name, share in (("validate", validate), ("test", test)):
        if not 0 <= share < 1:
            raise ValueError(f"{name} must be a share from 0 to below 1, got {share!r}")
    if validate + test >= 1:
        raise ValueError(f"validate and test must add up to less than 1, got {validate!r} + {test!r}")
    groups: dict[Hashable, list[int]] = {}
    for place, sample in enumerate(samples):
        groups.setdefault(_same_task(sample), []).append(place)
    parts_wanted = 1 + (validate > 0) + (test > 0)
    if len(groups) < parts_wanted:
        raise ValueError(f"{len(groups)} different samples cannot be split into {parts_wanted}")
    shuffled = list(groups.values())
    random.Random(seed).shuffle(shuffled)
    tested, rest = _taken(shuffled, _count(test, len(samples)), leave=1 + (validate > 0))
    validated, trained = _taken(rest, _count(validate, len(samples)), leave=1)
    return Splits(*(tuple(samples[place] for place in part) for part in (_flat(trained), validated, tested)))


def check_disjoint(samples: Iterable[ACESample], held_out: Iterable[ACESample]) -> None:
    """Check that no training sample is also a validation sample.

    Args:
        samples: The training samples.
        held_out: The validation samples.

    Raises:
        ValueError: The same task is in both.
    """
    trained = {_same_task(sample) for sample in samples}
    for sample in held_out:
        if _same_task(sample) in trained:
            raise ValueError(
                f"a validation sample is also a training sample, so it would prove nothing: {sample.question[:80]!r}; "
                "use split_samples to split the samples"
            )


def _count(share: float, total: int) -> int:
    return max(1, round(share * total)) if share else 0


def _taken(groups: list[list[int]], count: int, *, leave: int) -> tuple[list[int], list[list[int]]]:
    """Take whole groups until they contain `count` samples, but leave some groups for the other parts."""
    taken: list[int] = []
    rest = list(groups)
    while len(taken) < count and len(rest) > leave:
        taken += rest.pop(0)
    return sorted(taken), rest


def _flat(groups: list[list[int]]) -> list[int]:
    return sorted(place for group in groups for place in group)


def _same_task(sample: ACESample) -> Hashable:
    """Return a key that is equal for samples with the same task, ignoring white space and case."""
    return tuple(" ".join(text.split()).casefold() for text in (sample.question, sample.context or ""))
