"""What one call of `run` can be told beside its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

from ace.arguments import instance_of, whole_number
from ace.pipeline import CancellationToken

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult

__all__ = ["AHEAD_OF_LEARNING", "OnSample", "RunOptions", "RunSettings"]

OnSample = Callable[["SampleResult[ACEStepContext]"], None]

AHEAD_OF_LEARNING = 4
"""How many samples beside those in the foreground a runner with agents lets be unlearned by default: enough for the
reflect step, which makes three reflections at once, and for one that is being written."""


class RunOptions(TypedDict, total=False):
    """The keyword arguments of `run` that all runners share."""

    wait: bool
    """Whether to return only when everything is learned; True by default. With False, `run` returns when the last
    foreground part is over; `max_in_flight` holds here too."""
    workers: int | None
    """How many samples may be in the foreground at once, such as agents that answer; 1 by default. For
    `TraceAnalyser`, which has no foreground, how many traces are reflected on at once in this run; by default three,
    which all runs of the process share."""
    lag: int | None
    """The older spelling of `max_in_flight`, which is `lag + 1`; giving both is an error."""
    max_in_flight: int | None
    """How many samples may be between their first and their last step at once. With 1, learning is strictly online: a
    sample starts only when the one before has been learned. Then the same answers give the same skills, and the same
    bytes too if the skillbook has a clock of its own, `Skillbook(clock=...)`. By default it is `workers + 4` where an
    agent answers, so that later samples of an epoch benefit from earlier ones, and the engine's background limit for
    recorded traces. None lifts the limit, so that `run` with `wait=False` returns after the last answer."""
    on_sample_done: OnSample | None
    """Called with each result when the foreground of its sample is over."""
    on_sample_end: OnSample | None
    """Called with each result when its sample has been learned, has failed or was cancelled."""
    cancel_token: CancellationToken | None
    """Stops the run: what is inside a step finishes, the rest has a `PipelineCancelled` in its result and is left to a
    resumed run. `max_cost` and `fail_fast` cancel it too."""
    run_id: str | None
    """The name of the run, under which a skillbook in a store keeps its progress; by default a new one."""
    resume: bool | Literal["auto"]
    """Whether to continue a run that was killed or stopped, or in which samples failed: the one named by `run_id`, by
    default the last unfinished one of this kind of runner, and a new one if there is none. Samples that it has learned
    are skipped, with `metadata["already_learned"]` in their results; those that failed are tried again; and a model
    call whose answer was recorded is not made again, unless a role could not use the answer. `"auto"` continues the
    unfinished run over these inputs, or the one named by `run_id`, and starts one if there is none."""
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


class NotGiven(Enum):
    """Says that an option was not given, where None means something."""

    NOT_GIVEN = "not given"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The checked options of one call of `run`, with their defaults; see `RunOptions`.

    Raises:
        TypeError: The token or the function is something else.
        ValueError: An option is outside its range.
    """

    wait: bool = True
    workers: int | None = None
    lag: int | None = None
    max_in_flight: int | NotGiven | None = NotGiven.NOT_GIVEN
    on_sample_done: OnSample | None = None
    on_sample_end: OnSample | None = None
    cancel_token: CancellationToken | None = None
    run_id: str | None = None
    resume: bool | Literal["auto"] = False
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
        return cls(**own), extra

    def in_flight(self, default: int | None) -> int | None:
        """Return how many samples may be between their first and their last step; None sets no limit.

        Args:
            default: What holds if the caller of the run has not said it.
        """
        if self.lag is not None:
            return self.lag + 1
        return default if isinstance(self.max_in_flight, NotGiven) else self.max_in_flight

    def __post_init__(self) -> None:
        if self.workers is not None:
            whole_number("workers", self.workers)
        if self.lag is not None:
            whole_number("lag", self.lag, least=0, of="samples")
        if self.shuffle is not None:
            instance_of("shuffle", self.shuffle, int)
        if self.max_in_flight is not NotGiven.NOT_GIVEN:
            if self.lag is not None:
                raise ValueError("pass max_in_flight or lag, not both: lag=n is max_in_flight=n+1")
            if self.max_in_flight is not None:
                whole_number("max_in_flight", self.max_in_flight, of="samples")
        if self.cancel_token is not None:
            instance_of("cancel_token", self.cancel_token, CancellationToken)
        for name in ("on_sample_done", "on_sample_end"):
            callback = getattr(self, name)
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} must be a function that takes a result, got {callback!r}")
        run_id: object = self.run_id
        if run_id is not None and not (isinstance(run_id, str) and run_id.strip()):
            raise ValueError(f"run_id must be a string that is not empty, got {run_id!r}")
        _check_resume(self.resume)
        whole_number("max_consecutive_failures", self.max_consecutive_failures, of="samples")
        if self.max_cost is not None and not _is_amount(self.max_cost):
            raise ValueError(f"max_cost must be more than 0 US dollars, got {self.max_cost!r}")


def _check_resume(value: object) -> None:
    if value not in (True, False, "auto"):
        raise ValueError(f'resume must be True, False or "auto", got {value!r}')


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
