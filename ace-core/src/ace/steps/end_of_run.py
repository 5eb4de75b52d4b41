"""What a step may do once more when a run is over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

__all__ = ["EndOfRun", "end_steps"]

logger = logging.getLogger(__name__)


@runtime_checkable
class EndOfRun(Protocol):
    """A step that has work left when the last sample is through. Runners call it, in the order of the steps."""

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Do what is left.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was interrupted, so that only what saves work is done.
        """
        ...


def end_steps(
    steps: Iterable[object], last_index: int, *, interrupted: bool, on_problem: Callable[[Exception], None]
) -> None:
    """Let steps do what they have left. One that cannot, such as write a file, does not keep the others from it.

    Args:
        steps: The steps of a pipeline, in order.
        last_index: The `global_sample_index` of the last sample.
        interrupted: Whether the run was interrupted.
        on_problem: Told of what a step raises.
    """
    for step in steps:
        if isinstance(step, EndOfRun):
            try:
                step.end_run(last_index, interrupted=interrupted)
            except Exception as error:
                logger.error("%s could not end the run: %s", type(step).__name__, error)
                on_problem(error)
