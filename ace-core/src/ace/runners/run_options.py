"""What one call of `run` can be told beside its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypedDict

from ace.arguments import instance_of, whole_number
from ace.pipeline import CancellationToken

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult

__all__ = ["OnSampleDone", "RunOptions", "RunSettings"]

OnSampleDone = Callable[["SampleResult[ACEStepContext]"], None]


class RunOptions(TypedDict, total=False):
    """The keyword arguments of `run` that all runners share."""

    wait: bool
    """Whether to return only when everything is learned; True by default."""
    workers: int | None
    """How many samples may be in the foreground at once, such as agents that answer; 1 by default. For
    `TraceAnalyser`, which has no foreground, how many traces are reflected on at once in this run; by default three,
    which all runs of the process share."""
    lag: int | None
    """How many earlier samples may be unlearned when one starts. 0 is strictly online."""
    on_sample_done: OnSampleDone | None
    """Called with each result when the foreground of its sample is over."""
    cancel_token: CancellationToken | None
    """Stops the run: what is inside a step finishes, the rest has a `PipelineCancelled` in its result and is left to a
    resumed run. `max_cost` and `fail_fast` cancel it too."""
    run_id: str | None
    """The name of the run, under which a skillbook in a store keeps its progress; by default a new one."""
    resume: bool
    """Whether to continue a run that was killed or stopped, or in which samples failed: the one named by `run_id`, by
    default the last unfinished one of this kind of runner, and a new one if there is none. Samples that it has learned
    are skipped, with `metadata["already_learned"]` in their results; those that failed are tried again; and a model
    call whose answer was recorded is not made again, unless a role could not use the answer."""
    max_cost: float | None
    """US dollars. Once the model calls of this run have cost this much, no further sample starts."""
    fail_fast: bool
    """Whether the first failed sample stops the run."""
    once: bool
    """Whether to skip what any earlier run into this skillbook has learned, compared by content; feedback belongs to
    the content. Of a recorded trace that has grown, only what is new is learned. It needs a skillbook in a store. The
    epochs of one run are unaffected."""
    shuffle: int | None
    """A seed: every epoch takes the inputs in a random order of its own, which the seed determines on every machine,
    also when the run is resumed. It needs the inputs as a sequence; their places count in that order."""
    max_consecutive_failures: int
    """After how many samples in a row whose model could not be reached the run stops; 5 by default. It always stops
    when the server refuses the key. A run that was stopped can be resumed."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The checked options of one call of `run`, with their defaults; see `RunOptions`.

    Raises:
        TypeError: The token or the function is something else.
        ValueError: An option is outside its range.
    """

    wait: bool = True
    workers: int = 1
    lag: int | None = None
    on_sample_done: OnSampleDone | None = None
    cancel_token: CancellationToken | None = None
    run_id: str | None = None
    resume: bool = False
    max_cost: float | None = None
    fail_fast: bool = False
    once: bool = False
    shuffle: int | None = None
    max_consecutive_failures: int = 5

    @classmethod
    def taken_from(cls, arguments: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the settings among the arguments of a run, and the other arguments.

        Args:
            arguments: The keyword arguments.
        """
        own = {name: value for name, value in arguments.items() if name in cls.__dataclass_fields__}
        extra = {name: value for name, value in arguments.items() if name not in own}
        if own.get("workers", 1) is None:
            del own["workers"]
        return cls(**own), extra

    def __post_init__(self) -> None:
        whole_number("workers", self.workers)
        if self.lag is not None:
            whole_number("lag", self.lag, least=0, of="samples")
        if self.shuffle is not None:
            instance_of("shuffle", self.shuffle, int)
        if self.cancel_token is not None:
            instance_of("cancel_token", self.cancel_token, CancellationToken)
        if self.on_sample_done is not None and not callable(self.on_sample_done):
            raise TypeError(f"on_sample_done is a function that takes a result, not {self.on_sample_done!r}")
        run_id: object = self.run_id
        if run_id is not None and not (isinstance(run_id, str) and run_id.strip()):
            raise ValueError(f"run_id is the name of a run, and no empty one, not {run_id!r}")
        whole_number("max_consecutive_failures", self.max_consecutive_failures, of="samples")
        if self.max_cost is not None and not _is_amount(self.max_cost):
            raise ValueError(f"max_cost is an amount of US dollars above 0, not {self.max_cost!r}")


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
