"""The module `statistics` for sessions, whose interpreter lacks it: the functions that are useful on a trace.

The sandbox is fed the text of this file. It runs there rather than on the host, so that the limits of the session
apply. The functions return what those of the standard library return, up to rounding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "correlation",
    "fmean",
    "mean",
    "median",
    "median_high",
    "median_low",
    "mode",
    "multimode",
    "pstdev",
    "pvariance",
    "quantiles",
    "stdev",
    "variance",
]


def _numbers(data: Iterable[float], name: str, least: int = 1) -> list[float]:
    numbers = list(data)
    if len(numbers) < least:
        raise ValueError(f"{name} requires at least {least} data point{'s' if least > 1 else ''}")
    return numbers


def fmean(data: Iterable[float]) -> float:
    """Return the mean as a float."""
    numbers = _numbers(data, "fmean")
    return math.fsum(numbers) / len(numbers)


def mean(data: Iterable[float]) -> float:
    """Return the mean: an integer if that of integers is one."""
    numbers = _numbers(data, "mean")
    if all(isinstance(number, int) for number in numbers):
        total = sum(numbers)
        return total // len(numbers) if total % len(numbers) == 0 else total / len(numbers)
    return math.fsum(numbers) / len(numbers)


def median(data: Iterable[float]) -> float:
    """Return the middle value, or the mean of the two middle values."""
    numbers = sorted(_numbers(data, "median"))
    middle = len(numbers) // 2
    return numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2


def median_low(data: Iterable[float]) -> float:
    """Return the middle value, or the lower of the two."""
    numbers = sorted(_numbers(data, "median_low"))
    return numbers[(len(numbers) - 1) // 2]


def median_high(data: Iterable[float]) -> float:
    """Return the middle value, or the higher of the two."""
    numbers = sorted(_numbers(data, "median_high"))
    return numbers[len(numbers) // 2]


def multimode(data: Iterable[Any]) -> list[Any]:
    """Return the most frequent values, in the order of their first occurrence."""
    counts: dict[Any, int] = {}
    for value in data:
        counts[value] = counts.get(value, 0) + 1
    most = max(counts.values()) if counts else 0
    return [value for value, count in counts.items() if count == most]


def mode(data: Iterable[Any]) -> Any:
    """Return the most frequent value, the first one if there are several."""
    values = multimode(data)
    if not values:
        raise ValueError("mode requires at least 1 data point")
    return values[0]


def _squares(numbers: list[float]) -> float:
    centre = math.fsum(numbers) / len(numbers)
    return math.fsum([(number - centre) ** 2 for number in numbers])


def variance(data: Iterable[float]) -> float:
    """Return the variance of a sample."""
    numbers = _numbers(data, "variance", 2)
    return _squares(numbers) / (len(numbers) - 1)


def pvariance(data: Iterable[float]) -> float:
    """Return the variance of a whole population."""
    numbers = _numbers(data, "pvariance")
    return _squares(numbers) / len(numbers)


def stdev(data: Iterable[float]) -> float:
    """Return the standard deviation of a sample."""
    return math.sqrt(variance(data))


def pstdev(data: Iterable[float]) -> float:
    """Return the standard deviation of a whole population."""
    return math.sqrt(pvariance(data))


def quantiles(data: Iterable[float], *, n: int = 4, method: str = "exclusive") -> list[float]:
    """Return the n - 1 values that divide the data into n equal parts.

    Args:
        data: The numbers.
        n: How many parts.
        method: `exclusive`, or `inclusive` if the data contains its own extremes.
    """
    numbers = sorted(_numbers(data, "quantiles", 2))
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if method not in ("exclusive", "inclusive"):
        raise ValueError(f"method must be 'exclusive' or 'inclusive', got {method!r}")
    size = len(numbers)
    parts = []
    for part in range(1, n):
        if method == "inclusive":
            below = part * (size - 1) // n
            weight = part * (size - 1) - below * n
        else:
            below = max(1, min(part * (size + 1) // n, size - 1)) - 1
            weight = part * (size + 1) - (below + 1) * n
        parts.append((numbers[below] * (n - weight) + numbers[min(below + 1, size - 1)] * weight) / n)
    return parts


def correlation(x: Iterable[float], y: Iterable[float]) -> float:
    """Return the correlation of two lists of numbers (Pearson)."""
    first, second = _numbers(x, "correlation", 2), _numbers(y, "correlation", 2)
    if len(first) != len(second):
        raise ValueError("correlation requires two lists of the same length")
    spread = math.sqrt(_squares(first) * _squares(second))
    if spread == 0:
        raise ValueError("correlation requires numbers that are not all equal")
    centre_first, centre_second = math.fsum(first) / len(first), math.fsum(second) / len(second)
    products = [(a - centre_first) * (b - centre_second) for a, b in zip(first, second, strict=True)]
    return math.fsum(products) / spread
