"""CPU time of several pieces of code, measured in turns."""

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Timed: TypeAlias = Callable[[], float]


def timed(work: Callable[[], T], check: Callable[[T], None]) -> Timed:
    """Return a function that does `work` once, checks what it returned, and returns its CPU seconds.

    CPU time is that of the whole process, with all its threads: it repeats where others use the machine too.
    """

    def measure() -> float:
        gc.collect()
        start = time.process_time()
        returned = work()
        seconds = time.process_time() - start
        check(returned)
        return seconds

    return measure


def medians(contenders: Mapping[str, Timed], rounds: int) -> dict[str, float]:
    """Measure each contender once in each round, beginning with another one each time, after a round to warm up.

    Returns:
        The median CPU seconds of each.
    """
    names = list(contenders)
    for name in names:
        contenders[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(contenders[name]())
    return {name: median(values) for name, values in seconds.items()}
