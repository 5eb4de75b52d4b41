"""A sample of a run between being drawn and having passed its last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace.runners.failures import DrawnSample
    from ace.skillbook.store import SampleKey

__all__ = ["SampleUnderway"]


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

    @property
    def place(self) -> int:
        """Its place in the input, from 0."""
        return self.drawn.index - 1
