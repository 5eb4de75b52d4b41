"""What a step may do once more when a run is over."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["EndOfRun"]


@runtime_checkable
class EndOfRun(Protocol):
    """A step that has work left when the last sample is through. Runners call it, in the order of the steps."""

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Do what is left.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was broken off, so that only what saves work is done.
        """
        ...
