"""`RunSettings`: the declarations of the options of one call of `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self

from ace._internal.arguments import instance_of, whole_number
from ace._internal.options import check_options, learning_option, option, refused

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import CancellationToken, SampleResult

__all__ = ["AHEAD_OF_LEARNING", "OnSample", "RunSettings"]

OnSample = Callable[["SampleResult[ACEStepContext]"], None]

AHEAD_OF_LEARNING = 4
"""How many samples, in addition to those in the foreground, may by default not be learned yet if an agent answers:
enough for the reflect step, which makes three reflections at once, and for one sample that is being written."""


class NotGiven(Enum):
    """Marks an option that was not given, where None has a meaning."""

    NOT_GIVEN = "not given"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The checked options of one call of `run`, with their defaults.

    Raises:
        TypeError: The token or a callback has the wrong type.
        ValueError: An option is outside its range.
    """

    wait: bool = option(
        True,
        "Whether to return only when everything is learned; True by default. With False, `run` returns when "
        "the last foreground part has ended; `max_in_flight` applies here too.",
        python_only=True,
    )
    workers: int | None = learning_option(
        None,
        "The number of inputs to process concurrently.",
        details="It is how many samples may be in the foreground at once, that is, how many agents answer at once; 1 "
        "by default. For `TraceAnalyser`, which has no foreground, how many traces are reflected on at once "
        "in this run, and about how many the skill manager is asked at once; by default three reflections, "
        "which all runs of the process share, and one update. An update that does not fit what other traces "
        "have taught in the meantime is requested again.",
        commands=("learn", "train", "eval"),
        common=("learn", "train"),
        least=1,
        most=1000,
        used="3 reflections, or 1 agent",
        group="Run",
    )
    max_in_flight: int | NotGiven | None = option(
        NotGiven.NOT_GIVEN,
        "How many samples may be between their first and their last step at once. With 1, learning is "
        "strictly online: a sample starts only when the previous one has been learned. The same answers then "
        "give the same skills, and even the same bytes if the skillbook has a clock of its own, "
        "`Skillbook(clock=...)`. By default it is `workers + 4` if an agent answers, so that later samples of "
        "an epoch benefit from earlier ones, and the engine's background limit for recorded traces. None "
        "removes the limit, so that `run` with `wait=False` returns after the last answer.",
        python_only=True,
    )
    on_sample_done: OnSample | None = option(
        None,
        "Called with each result when the foreground of its sample has ended.",
        python_only=True,
    )
    on_sample_end: OnSample | None = option(
        None,
        "Called with each result when its sample has been learned, has failed or was cancelled.",
        python_only=True,
    )
    cancel_token: CancellationToken | None = option(
        None,
        "Stops the run: samples that are in a step finish it; the others have a `PipelineCancelled` as their "
        "error and are left to a resumed run. `max_cost` and `fail_fast` cancel it too.",
        python_only=True,
    )
    run_id: str | None = option(
        None,
        "The name of the run, under which a skillbook in a store keeps its progress; by default a new one.",
        python_only=True,
    )
    resume: bool | Literal["auto"] = option(
        False,
        "Whether to continue a run that was killed or stopped, or in which samples failed: the one named by "
        "`run_id`, by default the last unfinished one of this kind of runner, else a new one. Samples that it "
        'has learned are skipped, with `metadata["already_learned"]` in their results. Those that failed are '
        "tried again. A model call whose answer was recorded is not made again, unless a role could not use "
        'the answer. `"auto"` continues the unfinished run over these inputs, or the one named by `run_id`, '
        "and otherwise starts a new one.",
        python_only=True,
    )
    max_cost: float | None = learning_option(
        None,
        "Stop starting new inputs once the run has cost this much (USD).",
        details="Only the model calls of this run count.",
        commands=("learn", "train", "eval"),
        common=("learn", "train"),
        above=0,
        unit="US dollars",
        group="Run",
        project=refused("it would replace your own limit"),
    )
    fail_fast: bool = learning_option(
        False,
        "Stop at the first input that fails.",
        group="Run",
    )
    once: bool = option(
        False,
        "Whether to skip what any earlier run into this skillbook has learned, compared by content, which "
        "includes feedback. If a recorded trace has grown, only what is new in it is learned. It requires a "
        "skillbook in a store. The epochs of one run are not affected.",
        python_only=True,
    )
    shuffle: int | None = learning_option(
        None,
        "Shuffle the inputs in each epoch, with this random seed.",
        details="The order is the same on every machine and when the run is resumed. The inputs must be a sequence; "
        "indexes and results follow the shuffled order. Traces with the same `RecordedTrace.group` stay "
        "together, in their order.",
        commands=("learn", "train", "eval"),
        group="Run",
    )
    stop_idle: bool = option(
        False,
        "Whether the run ends after an epoch in which no skill was added, changed or removed. The run is then "
        "complete, and the reason in its `RunEnded` event is `nothing_accepted`.",
        python_only=True,
    )
    reflection_window: int = learning_option(
        0,
        "Show the agent and the reflector this many of the most recent reflections.",
        details="They are part of the task, after everything that a provider can cache, take at most 1,500 tokens, "
        "and cost no further calls. After a resume they are the same ones with `max_in_flight=1`. Roles for "
        "small models receive none, and neither do agents outside this program or a recursive reflection on "
        "several traces.",
        least=0,
        most=1000,
        unit="reflections",
        group="Run",
    )
    max_consecutive_failures: int = learning_option(
        5,
        "Stop after this many inputs in a row whose model could not be reached.",
        details="It always stops when the server rejects the key. A stopped run can be resumed.",
        least=1,
        unit="samples",
        group="Run",
    )
    forget_answers: bool = learning_option(
        False,
        "Delete the recorded answers of models from the skillbook when the run is complete. Always done with "
        "--provenance ids.",
        details="They are also overwritten. As long as samples are left that failed or were not started, the answers "
        "are kept, so that the run can be resumed.",
        group="Safeguards",
        project=refused("what was paid for would be deleted"),
    )

    @classmethod
    def taken_from(cls, arguments: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the settings among the arguments of a run, and the other arguments.

        Args:
            arguments: The keyword arguments.
        """
        own = {name: value for name, value in arguments.items() if name in cls.__dataclass_fields__}
        return cls(**own), {name: value for name, value in arguments.items() if name not in own}

    def in_flight(self, default: int | None) -> int | None:
        """Return how many samples may be between their first and their last step; None sets no limit.

        Args:
            default: The value if the option was not given.
        """
        return default if isinstance(self.max_in_flight, NotGiven) else self.max_in_flight

    def __post_init__(self) -> None:
        check_options(self)
        if not isinstance(self.max_in_flight, NotGiven) and self.max_in_flight is not None:
            whole_number("max_in_flight", self.max_in_flight, of="samples")
        if self.cancel_token is not None:
            from ace.pipeline import CancellationToken  # the command line reads the declarations without the engine

            instance_of("cancel_token", self.cancel_token, CancellationToken)
        for name in ("on_sample_done", "on_sample_end"):
            callback = getattr(self, name)
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} must be a function that takes a result, got {callback!r}")
        run_id: object = self.run_id
        if run_id is not None and not (isinstance(run_id, str) and run_id.strip()):
            raise ValueError(f"run_id must be a string that is not empty, got {run_id!r}")
        if self.resume not in (True, False, "auto"):
            raise ValueError(f'resume must be True, False or "auto", got {self.resume!r}')
