"""What decides whether the operations of a sample are applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.protocols.roles import SkillbookReader
    from ace.updates import UpdateBatch

__all__ = ["GateLike", "GateVerdict"]


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Whether a batch of operations is accepted, and why.

    Example:
        >>> GateVerdict(False, "net score 4 -> 1 (-3)", {"net": 4}, {"net": 1}).accepted
        False
    """

    accepted: bool
    """Whether the operations are applied."""
    reason: str
    """The reason, as text without anything from the trace; the history records it with refused operations."""
    before: Mapping[str, float] = field(default_factory=dict)
    """The gate's own figures for the skillbook as it is."""
    after: Mapping[str, float] = field(default_factory=dict)
    """The same figures for the skillbook with the operations."""


@runtime_checkable
class GateLike(Protocol):
    """Decides whether a batch of operations is applied. No inheritance is needed.

    The method is called by keyword only, for one sample at a time, and must not change the skillbook.
    """

    def judge(self, *, skillbook: SkillbookReader, batch: UpdateBatch) -> GateVerdict:
        """Judge a batch.

        Args:
            skillbook: The book as it is.
            batch: The operations that would be applied, in order. TAG operations in it are applied whatever the
                verdict is.
        """
        ...
