"""The samples of a run between being drawn and having passed their last step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult
    from ace.runners.failures import DrawnSample
    from ace.skillbook.store import SampleKey

__all__ = ["SampleUnderway", "SamplesUnderway"]


@dataclass(frozen=True, slots=True)
class SampleUnderway:
    """A sample that a run has begun with."""

    drawn: DrawnSample
    """What it is."""
    key: SampleKey
    """Under which key a store takes it."""
    global_index: int
    """Its place in the run, from 1."""
    attempt: int
    """How often it has failed before."""
    attempts: Mapping[str, int]
    """How often it has failed because of the answers to each role."""
    already_learned: bool
    """Whether only the steps behind `ApplyStep` are left."""
    started: float
    """When it was drawn, by the monotonic clock."""
    content: Mapping[str, object] = field(default_factory=dict)
    """What is noted of its content, so that a later run knows it; see `ace.runners.once`."""


@final
class SamplesUnderway:
    """Finds the sample that a result of the engine belongs to.

    The engine hands the same result object out when the foreground ends and when the background does. Before, all
    it tells of a sample is the caller's own object, which may be there several times: then the earliest is meant.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_front: dict[int, list[SampleUnderway]] = {}
        self._behind: dict[int, tuple[SampleResult[ACEStepContext], SampleUnderway]] = {}

    def draw(self, sample: SampleUnderway) -> None:
        """Take in a sample whose first step comes."""
        with self._lock:
            self._in_front.setdefault(id(sample.drawn.sample), []).append(sample)

    def leave_front(self, result: SampleResult[ACEStepContext], *, goes_on: bool) -> SampleUnderway:
        """Return the sample whose foreground part is over.

        Args:
            result: Its result.
            goes_on: Whether it enters the background.
        """
        with self._lock:
            waiting = self._in_front[id(result.sample)]
            sample = next(filter(_is_of(result), waiting), waiting[0])
            waiting.remove(sample)
            if not waiting:
                del self._in_front[id(result.sample)]
            if goes_on:
                self._behind[id(result)] = (result, sample)  # the result is held, so that no other gets its id
        return sample

    def leave(self, result: SampleResult[ACEStepContext]) -> SampleUnderway | None:
        """Return the sample that has left the background; None if the result is of another run."""
        with self._lock:
            found = self._behind.pop(id(result), None)
        return None if found is None else found[1]


def _is_of(result: SampleResult[ACEStepContext]) -> Callable[[SampleUnderway], bool]:
    """Return whether a result that is good belongs to a sample; one that failed tells nothing."""
    key = None if result.output is None else result.output.metadata.get("sample_key")
    return lambda sample: sample.key == key
