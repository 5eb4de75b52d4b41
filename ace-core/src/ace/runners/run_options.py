"""What one call of `run` can be told beside its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ace.arguments import instance_of
from ace.pipeline import CancellationToken

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult

__all__ = ["OnSampleDone", "RunOptions"]

OnSampleDone = Callable[["SampleResult[ACEStepContext]"], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one call of `run` was told.

    Raises:
        TypeError: The token or the function is something else.
        ValueError: An option makes no sense.
    """

    most_under_way: int | None = None
    """How many earlier samples may be under way when one begins; None leaves it to the engine."""
    on_sample_done: OnSampleDone | None = None
    """Called with each result when the foreground part of the sample is over."""
    cancel_token: CancellationToken | None = None
    """Stops the run."""
    run_id: str | None = None
    """The name of the run; None makes one up or, for a resumed run, takes the last one that was not finished."""
    resume: bool = False
    """Whether the run was begun by an earlier call."""
    max_cost: float | None = None
    """The US dollars after which no further sample begins."""
    fail_fast: bool = False
    """Whether the first failed sample stops the run."""

    def __post_init__(self) -> None:
        if self.cancel_token is not None:
            instance_of("cancel_token", self.cancel_token, CancellationToken)
        if self.on_sample_done is not None and not callable(self.on_sample_done):
            raise TypeError(f"on_sample_done is a function that takes a result, not {self.on_sample_done!r}")
        run_id: object = self.run_id
        if run_id is not None and not (isinstance(run_id, str) and run_id.strip()):
            raise ValueError(f"run_id is the name of a run, and no empty one, not {run_id!r}")
        if self.max_cost is not None and not _is_amount(self.max_cost):
            raise ValueError(f"max_cost is an amount of US dollars above 0, not {self.max_cost!r}")


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
