"""Statistics of differences: intervals, paired and unpaired tests, and pass^k.

They are computed over samples, because repeats of one sample are not independent, and with a seed, so that the same
answers give the same numbers.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist, fmean, variance
from typing import SupportsFloat, TypeVar

from ace._internal.arguments import checked_arguments, real_number, shown, whole_number

__all__ = [
    "Interval",
    "bootstrap_difference",
    "bootstrap_interval",
    "mcnemar_test",
    "mean_interval",
    "paired_interval",
    "pass_hat_k",
    "permutation_test",
    "share_interval",
    "sign_flip_test",
]

T = TypeVar("T")

_MOST_FLIPS_COUNTED = 12
"""Up to this many differences, every combination of signs is enumerated: 4,096 of them."""
_MOST_RESAMPLED = 2_000
"""With more values than this in both groups, a normal approximation replaces resampling, which would be slow."""
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its confidence interval, at the requested level."""

    value: float
    """The value as measured."""
    low: float
    """The lower end."""
    high: float
    """The upper end."""


@checked_arguments()
def bootstrap_interval(
    values: Sequence[float], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Return the mean of values, with its percentile bootstrap interval.

    B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13. Where all values are equal the
    interval has no width: the bootstrap only knows the values that it has seen.

    Args:
        values: One for each sample; for a paired difference, the differences.
        confidence: The level, between 0 and 1.
        resamples: The number of resamples.
        seed: For random numbers.

    Raises:
        TypeError: `values` are not numbers.
        ValueError: `values` is empty, or an argument is out of range.

    Example:
        >>> bootstrap_interval([0.0, 1.0, 1.0, 1.0])
        Interval(value=0.75, low=0.25, high=1.0)
    """
    values = _numbers("values", values)
    if not values:
        raise ValueError("an interval needs at least one value")
    _check_confidence(confidence)
    whole_number("resamples", resamples)
    count = len(values)
    choices = random.Random(seed).choices
    means = sorted(math.fsum(choices(values, k=count)) / count for _ in range(resamples))
    tail = (1 - confidence) / 2
    return Interval(fmean(values), _quantile(means, tail), _quantile(means, 1 - tail))


@checked_arguments()
def share_interval(share: float, count: int, *, confidence: float = 0.95) -> Interval:
    """Return a share with its score interval, which also has a width if the share is 0 or 1.

    E. B. Wilson, Journal of the American Statistical Association 22 (1927).

    Args:
        share: The share, from 0 to 1.
        count: How many independent observations it comes from; repeats of a question do not count.
        confidence: The level, between 0 and 1.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> interval = share_interval(0.5, 24)
        >>> round(100 * interval.low), round(100 * interval.high)
        (31, 69)
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 to 1, got {shown(share)}")
    whole_number("count", count)
    _check_confidence(confidence)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shrunk = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / shrunk
    half = z / shrunk * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


@checked_arguments()
def mean_interval(values: Sequence[float], *, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Return the mean of values with its interval: the score interval if all are 0 or 1, else that of the bootstrap.

    Args:
        values: One for each sample.
        confidence: The level, between 0 and 1.
        seed: For random numbers.

    Raises:
        TypeError: `values` are not numbers.
        ValueError: `values` is empty, or an argument is out of range.

    Example:
        >>> interval = mean_interval([1.0, 1.0, 1.0, 1.0])
        >>> interval.value, round(interval.low, 2), interval.high
        (1.0, 0.51, 1.0)
    """
    values = _numbers("values", values)
    if not values or not _are_binary(values):
        return bootstrap_interval(values, confidence=confidence, seed=seed)
    return share_interval(fmean(values), len(values), confidence=confidence)


@checked_arguments()
def paired_interval(
    before: Sequence[float], after: Sequence[float], *, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Return the mean of `after` minus that of `before`, with its interval, for values of the same samples.

    If all values are 0 or 1, it is the score interval for paired shares (R. G. Newcombe, Statistics in Medicine 17,
    1998, method 10), which also has a width if all differences are equal; else that of the bootstrap.

    Args:
        before: One for each sample.
        after: The same samples afterwards, in the same order.
        confidence: The level, between 0 and 1.
        seed: For random numbers.

    Raises:
        TypeError: The values are not numbers.
        ValueError: The sequences are empty or differ in length, or an argument is out of range.

    Example:
        >>> interval = paired_interval([0.0] * 4, [1.0] * 4)
        >>> interval.value, round(interval.low, 2), interval.high
        (1.0, 0.31, 1.0)
    """
    before, after = _numbers("before", before), _numbers("after", after)
    _check_paired(before, after)
    if not before or not _are_binary((*before, *after)):
        moved = [new - old for old, new in zip(before, after, strict=True)]
        return bootstrap_interval(moved, confidence=confidence, seed=seed)
    count = len(before)
    old, new = (share_interval(fmean(values), count, confidence=confidence) for values in (before, after))
    correlation = _corrected_correlation(before, after)
    value = new.value - old.value
    down = _joined_reach(new.value - new.low, old.high - old.value, correlation)
    up = _joined_reach(new.high - new.value, old.value - old.low, correlation)
    return Interval(value, max(-1.0, value - down), min(1.0, value + up))


def _are_binary(values: Iterable[float]) -> bool:
    return all(value in (0, 1) for value in values)


def _corrected_correlation(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the correlation of two yes-or-no values, with Newcombe's correction for continuity."""
    pairs = Counter((bool(old), bool(new)) for old, new in zip(before, after, strict=True))
    both, neither, lost, gained = (pairs[pair] for pair in ((True, True), (False, False), (True, False), (False, True)))
    product_of_sums = (both + lost) * (gained + neither) * (both + gained) * (lost + neither)
    if not product_of_sums:
        return 0.0
    covariance: float = both * neither - lost * gained
    if covariance > 0:
        covariance = max(0.0, covariance - len(before) / 2)
    return covariance / math.sqrt(product_of_sums)


def _joined_reach(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


@checked_arguments()
def bootstrap_difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return the mean of the second group minus that of the first, with its percentile bootstrap interval.

    The groups are of different samples, such as the requests of two arms of an experiment. With more than 2,000 values
    in both together, the interval is that of the normal distribution.

    Args:
        first: The values of the first group.
        second: The values of the second group.
        confidence: The level, between 0 and 1.
        resamples: The number of resamples.
        seed: For random numbers.

    Raises:
        TypeError: The values are not numbers.
        ValueError: A group is empty, or an argument is out of range.

    Example:
        >>> bootstrap_difference([0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0])
        Interval(value=0.75, low=0.25, high=1.0)
    """
    first, second = _numbers("first", first), _numbers("second", second)
    if not first or not second:
        raise ValueError("an interval needs at least one value in each group")
    _check_confidence(confidence)
    whole_number("resamples", resamples)
    value = fmean(second) - fmean(first)
    tail = (1 - confidence) / 2
    if len(first) + len(second) > _MOST_RESAMPLED:
        reach = NormalDist().inv_cdf(1 - tail) * _standard_error(first, second)
        return Interval(value, value - reach, value + reach)
    choices = random.Random(seed).choices
    differences = sorted(
        fmean(choices(second, k=len(second))) - fmean(choices(first, k=len(first))) for _ in range(resamples)
    )
    return Interval(value, _quantile(differences, tail), _quantile(differences, 1 - tail))


@checked_arguments()
def permutation_test(
    first: Sequence[float], second: Sequence[float], *, permutations: int = 2000, seed: int = 0
) -> float:
    """Return the probability of a difference of means at least this large if both groups have the same distribution.

    The values are divided among the groups at random, and the measured division is counted in, so that the result is
    never 0 (B. Phipson and G. K. Smyth, 2010). With more than 2,000 values in both groups together, it is that of the
    normal distribution.

    Args:
        first: The values of the first group.
        second: The values of the second group.
        permutations: The number of random divisions.
        seed: For random numbers.

    Raises:
        TypeError: The values are not numbers.
        ValueError: A group is empty, or `permutations` is below 1.

    Example:
        >>> permutation_test([0.0] * 10, [1.0] * 10) < 0.001
        True
        >>> permutation_test([0.0, 1.0], [1.0, 0.0])
        1.0
    """
    first, second = _numbers("first", first), _numbers("second", second)
    if not first or not second:
        raise ValueError("the test needs at least one value in each group")
    whole_number("permutations", permutations)
    observed = abs(fmean(second) - fmean(first))
    if len(first) + len(second) > _MOST_RESAMPLED:
        error = _standard_error(first, second)
        return 2 * NormalDist().cdf(-observed / error) if error else float(not observed)
    pooled = [*first, *second]
    total, size = math.fsum(pooled), len(first)
    generator = random.Random(seed)
    hits = 0
    for _ in range(permutations):
        drawn = math.fsum(generator.sample(pooled, size))
        hits += abs((total - drawn) / len(second) - drawn / size) >= observed - _TOLERANCE
    return (hits + 1) / (permutations + 1)


def _standard_error(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the standard error of the difference of two means."""
    return math.sqrt(sum(variance(values) / len(values) if len(values) > 1 else 0.0 for values in (first, second)))


@checked_arguments()
def mcnemar_test(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Return the probability of changes this uneven if neither side is better (exact, two-sided).

    Q. McNemar, Psychometrika 12 (1947), in its exact form: of the pairs that differ, each is as likely to be gained as
    lost, so the number gained is binomial.

    Args:
        before: Whether each sample was right.
        after: The same samples afterwards, in the same order.

    Raises:
        TypeError: The values are not truth values or numbers.
        ValueError: The sequences differ in length.

    Example:
        >>> mcnemar_test([False] * 5 + [True], [True] * 6)
        0.0625
    """
    before, after = _numbers("before", before), _numbers("after", after)
    _check_paired(before, after)
    pairs = list(zip(before, after, strict=True))
    gained = sum(not old and new for old, new in pairs)
    lost = sum(old and not new for old, new in pairs)
    changed = gained + lost
    tail = sum(math.comb(changed, count) for count in range(min(gained, lost) + 1))
    # Both numbers may be too large for a float; Python divides whole numbers of any size.
    share: float = 2 * tail / 2**changed
    return min(1.0, share)


@checked_arguments()
def sign_flip_test(differences: Sequence[float], *, permutations: int = 10_000, seed: int = 0) -> float:
    """Return the probability of a mean difference this large if each sign is random (two-sided).

    R. A. Fisher, The Design of Experiments, 1935, section 21. With few differences all signs are enumerated; otherwise
    they are drawn at random, and the drawn value is counted in, so that it is never 0 (B. Phipson and G. K. Smyth,
    2010).

    Args:
        differences: After minus before, one for each sample.
        permutations: The number of sign patterns to draw.
        seed: For random numbers.

    Raises:
        TypeError: `differences` are not numbers.
        ValueError: `permutations` is below 1.

    Example:
        >>> sign_flip_test([0.5, 0.5, 0.5, 0.5])
        0.125
    """
    differences = _numbers("differences", differences)
    whole_number("permutations", permutations)
    moved = [abs(difference) for difference in differences if difference]
    observed = abs(math.fsum(differences)) - _TOLERANCE * (1 + math.fsum(moved))
    if len(moved) <= _MOST_FLIPS_COUNTED:
        sums = [abs(math.fsum(map(_times, signs, moved))) for signs in product((1, -1), repeat=len(moved))]
        return sum(found >= observed for found in sums) / len(sums)
    generator = random.Random(seed)
    total = math.fsum(moved)
    hits = 0
    for _ in range(permutations):
        bits = generator.getrandbits(len(moved))
        flipped = math.fsum(value for place, value in enumerate(moved) if bits >> place & 1)
        hits += abs(total - 2 * flipped) >= observed
    return (hits + 1) / (permutations + 1)


@checked_arguments()
def pass_hat_k(right: int, attempts: int, k: int) -> float:
    """Return the probability that k attempts at one sample are all right: pass^k.

    The unbiased estimate of S. Yao and others, tau-bench, 2024: of all ways to choose k of the attempts, the share in
    which every one is right.

    Args:
        right: The number of right attempts.
        attempts: The number of attempts.
        k: The number of attempts that all have to be right.

    Raises:
        ValueError: There are fewer than k attempts.

    Example:
        >>> pass_hat_k(3, 4, 2)
        0.5
    """
    for name, value in (("right", right), ("attempts", attempts), ("k", k)):
        whole_number(name, value, least=0)
    if not 0 <= right <= attempts or not 1 <= k <= attempts:
        raise ValueError(f"pass^{k} needs at least {k} attempts, got {right} correct of {attempts}")
    return math.comb(right, k) / math.comb(attempts, k)


def _check_paired(before: Sequence[object], after: Sequence[object]) -> None:
    if len(before) != len(after):
        raise ValueError(
            f"before and after must be about the same samples, got {len(before)} values before and {len(after)} after"
        )


def _check_confidence(confidence: float) -> None:
    real_number("confidence", confidence)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, such as 0.95, got {confidence!r}")


def _numbers(name: str, values: Iterable[T]) -> tuple[T, ...]:
    """Return the values, all of which must be numbers."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of numbers, got {shown(values)}")
    numbers = tuple(values)
    for place, value in enumerate(numbers):
        if not isinstance(value, int | float | SupportsFloat):
            raise TypeError(f"{name}[{place}] must be a number, got {shown(value)}")
    return numbers


def _times(sign: int, value: float) -> float:
    return sign * value


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of ordered values, by linear interpolation."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
