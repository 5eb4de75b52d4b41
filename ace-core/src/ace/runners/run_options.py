"""The options of one call of `run`, and the limits that some of them set.

`RunLimits` stops a run that has cost enough, whose model cannot be reached, or whose skillbook cannot be written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, final

from ace.arguments import instance_of, whole_number
from ace.lazy_exports import warn_of_old_argument
from ace.pipeline import CancellationToken
from ace.protocols.errors import LLMAuthenticationError, LLMCallError, UnusableAnswerError
from ace.protocols.observers import Event, ModelCalled
from ace.runners.failures import first_cause
from ace.skillbook.errors import SkillbookStoreError

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult

__all__ = [
    "AHEAD_OF_LEARNING",
    "OnSample",
    "RunLimits",
    "RunOptions",
    "RunSettings",
]

OnSample = Callable[["SampleResult[ACEStepContext]"], None]

AHEAD_OF_LEARNING = 4
"""How many samples, in addition to those in the foreground, may by default not be learned yet if an agent answers:
enough for the reflect step, which makes three reflections at once, and for one sample that is being written."""


class RunOptions(TypedDict, total=False):
    """The keyword arguments of `run` that all runners share."""

    wait: bool
    """Whether to return only when everything is learned; True by default. With False, `run` returns when the last
    foreground part has ended; `max_in_flight` applies here too."""
    workers: int | None
    """How many samples may be in the foreground at once, that is, how many agents answer at once; 1 by default. For
    `TraceAnalyser`, which has no foreground, how many traces are reflected on at once in this run, and about how many
    the skill manager is asked at once; by default three reflections, which all runs of the process share, and one
    update. An update that does not fit what other traces have taught in the meantime is requested again."""
    lag: int | None
    """The old name of `max_in_flight`, which is `lag + 1`; it works until 0.2, with a deprecation warning."""
    max_in_flight: int | None
    """How many samples may be between their first and their last step at once. With 1, learning is strictly online: a
    sample starts only when the previous one has been learned. The same answers then give the same skills, and even the
    same bytes if the skillbook has a clock of its own, `Skillbook(clock=...)`. By default it is `workers + 4` if an
    agent answers, so that later samples of an epoch benefit from earlier ones, and the engine's background limit for
    recorded traces. None removes the limit, so that `run` with `wait=False` returns after the last answer."""
    on_sample_done: OnSample | None
    """Called with each result when the foreground of its sample has ended."""
    on_sample_end: OnSample | None
    """Called with each result when its sample has been learned, has failed or was cancelled."""
    cancel_token: CancellationToken | None
    """Stops the run: samples that are in a step finish it; the others have a `PipelineCancelled` as their error and are
    left to a resumed run. `max_cost` and `fail_fast` cancel it too."""
    run_id: str | None
    """The name of the run, under which a skillbook in a store keeps its progress; by default a new one."""
    resume: bool | Literal["auto"]
    """Whether to continue a run that was killed or stopped, or in which samples failed: the one named by `run_id`, by
    default the last unfinished one of this kind of runner, else a new one. Samples that it has learned are skipped,
    with `metadata["already_learned"]` in their results. Those that failed are tried again. A model call whose answer
    was recorded is not made again, unless a role could not use the answer. `"auto"` continues the unfinished run over
    these inputs, or the one named by `run_id`, and otherwise starts a new one."""
    max_cost: float | None
    """US dollars. Once the model calls of this run have cost this much, no further sample starts."""
    fail_fast: bool
    """Whether the first failed sample stops the run."""
    once: bool
    """Whether to skip what any earlier run into this skillbook has learned, compared by content, which includes
    feedback. If a recorded trace has grown, only what is new in it is learned. It requires a skillbook in a store. The
    epochs of one run are not affected."""
    shuffle: int | None
    """The random seed with which the inputs are shuffled in each epoch. The order is the same on every machine and when
    the run is resumed. The inputs must be a sequence; indexes and results follow the shuffled order. Traces with the
    same `RecordedTrace.group` stay together, in their order."""
    stop_idle: bool
    """Whether the run ends after an epoch in which no skill was added, changed or removed. The run is then complete,
    and the reason in its `RunEnded` event is `nothing_accepted`."""
    reflection_window: int
    """How many of the most recent reflections of this run the agent and the reflector receive, the newest one last; 0
    by default. They are part of the task, after everything that a provider can cache, take at most 1,500 tokens, and
    cost no further calls. After a resume they are the same ones with `max_in_flight=1`. Roles for small models receive
    none, and neither do agents outside this program or a recursive reflection on several traces."""
    max_consecutive_failures: int
    """The run stops after this many samples in a row whose model could not be reached; 5 by default. It always stops
    when the server rejects the key. A stopped run can be resumed."""
    forget_answers: bool
    """Whether the recorded answers of models are deleted from the store, and overwritten, when the run has ended
    without failures. As long as samples are left that failed or were not started, the answers are kept, so that the run
    can be resumed. With `provenance="ids"` that is always done."""


class NotGiven(Enum):
    """Marks an option that was not given, where None has a meaning."""

    NOT_GIVEN = "not given"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The checked options of one call of `run`, with their defaults; see `RunOptions`.

    Raises:
        TypeError: The token or a callback has the wrong type.
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
    stop_idle: bool = False
    reflection_window: int = 0
    max_consecutive_failures: int = 5
    forget_answers: bool = False

    @classmethod
    def taken_from(cls, arguments: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the settings among the arguments of a run, and the other arguments.

        Args:
            arguments: The keyword arguments.
        """
        own = {name: value for name, value in arguments.items() if name in cls.__dataclass_fields__}
        extra = {name: value for name, value in arguments.items() if name not in own}
        settings = cls(**own)
        if settings.lag is not None:
            warn_of_old_argument(f"lag={settings.lag}", f"max_in_flight={settings.lag + 1}")
        return settings, extra

    def in_flight(self, default: int | None) -> int | None:
        """Return how many samples may be between their first and their last step; None sets no limit.

        Args:
            default: The value if neither option was given.
        """
        if self.lag is not None:
            return self.lag + 1
        return default if isinstance(self.max_in_flight, NotGiven) else self.max_in_flight

    def __post_init__(self) -> None:
        if self.workers is not None:
            whole_number("workers", self.workers)
        self._check_in_flight()
        if self.shuffle is not None:
            instance_of("shuffle", self.shuffle, int)
        whole_number("reflection_window", self.reflection_window, least=0, of="reflections")
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

    def _check_in_flight(self) -> None:
        if self.max_in_flight is not NotGiven.NOT_GIVEN:
            if self.lag is not None:
                raise ValueError("pass max_in_flight or lag, not both: lag=n is max_in_flight=n+1")
            if self.max_in_flight is not None:
                whole_number("max_in_flight", self.max_in_flight, of="samples")
        if self.lag is not None:
            whole_number("lag", self.lag, least=0, of="samples")


def _check_resume(value: object) -> None:
    if value not in (True, False, "auto"):
        raise ValueError(f'resume must be True, False or "auto", got {value!r}')


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


logger = logging.getLogger(__name__)
stop_logger = logging.getLogger(f"{__name__}.stopped")
"""Logs why a run was stopped. The command line filters it out, because it reports that itself."""

_REFUSED_KEY = frozenset({401, 403})


@final
class RunLimits:
    """Cancels the token of a run when a limit is reached. Samples that are in a step still finish it.

    Args:
        run_id: The run whose model calls count.
        token: The token of the run.
        max_cost: US dollars; None sets no limit. Answers that an earlier call of the run has paid for do not count.
        fail_fast: Whether the first failed sample stops the run.
        max_consecutive_failures: How many samples in a row whose model could not be reached stop the run.
    """

    def __init__(
        self,
        run_id: str,
        token: CancellationToken,
        max_cost: float | None,
        fail_fast: bool,
        max_consecutive_failures: int = 5,
    ) -> None:
        self._run_id = run_id
        self._token = token
        self._max_cost = max_cost
        self._fail_fast = fail_fast
        self._max_consecutive_failures = max_consecutive_failures
        self._lock = threading.Lock()
        self._consecutive_failures = 0
        self._cost = 0.0
        self._unpriced: set[str] = set()
        self.write_error: SkillbookStoreError | None = None
        """The error with which the skillbook could not be written, or read from its store."""

    @property
    def stopped_by(self) -> str:
        """What stopped the run, as in `RunEnded.stopped_by`; empty if nothing did."""
        return self._token.reason if self.write_error is None else "skillbook_not_written"

    def observe(self, event: Event) -> None:
        """Add the cost of a model call of the run."""
        if self._max_cost is None or not isinstance(event, ModelCalled):
            return
        if event.run_id != self._run_id or event.recorded:
            return
        if event.cost is None:
            self._warn(event.model)
            return
        with self._lock:
            self._cost += event.cost
            if self._cost >= self._max_cost and not self._token.is_cancelled:
                self._token.cancel("max_cost")
                logger.warning("The run has cost %.4f USD, so no further sample begins", self._cost)

    def sample_failed(self, error: BaseException) -> None:
        """Count a sample that failed, and stop the run if later samples would fail in the same way.

        Args:
            error: The error of the sample.
        """
        if self._fail_fast:
            self._token.cancel("fail_fast")
        call = first_cause(error, LLMCallError)
        if call is None or call.concerns_one_request:
            if call is not None or first_cause(error, UnusableAnswerError) is not None:
                self.model_reached()  # it answered, even if the answer was not usable
            return
        if isinstance(call, LLMAuthenticationError) or call.status_code in _REFUSED_KEY:
            self._stop("authentication", "the server of the model refused the key", call)
            return
        with self._lock:
            self._consecutive_failures += 1
            failures = self._consecutive_failures
        if failures >= self._max_consecutive_failures:
            self._stop("server_failures", f"the model could not be reached for {failures} samples in a row", call)

    def model_reached(self) -> None:
        """Note that the model answered, so earlier failures and later ones are not in a row."""
        with self._lock:
            self._consecutive_failures = 0

    def _stop(self, reason: str, why: str, error: LLMCallError) -> None:
        with self._lock:
            if self._token.is_cancelled:
                return
            self._token.cancel(reason)
        stop_logger.warning(
            "The run was stopped, because %s (%.300s). Continue it with run(..., run_id=%r, resume=True) if the "
            "skillbook is in a store",
            *(why, error, self._run_id),
        )

    def not_written(self, error: SkillbookStoreError) -> None:
        """Stop the run because the skillbook cannot be written: what is learned from now on would be lost."""
        with self._lock:
            if self.write_error is None:
                self.write_error = error
                self._token.cancel("skillbook_not_written")

    def _warn(self, model: str) -> None:
        with self._lock:
            if model in self._unpriced:
                return
            self._unpriced.add(model)
        logger.warning("The price of model %r is not known, so max_cost does not count its calls", model)
