"""What learning has cost: the calls of a model by day, and what a run has spent in calls and on each of its steps.

Automatic learning is kept within a daily budget. There is one file for each day. Each call is a line in it, appended as
soon as the answer has arrived, so that the cost is known even if the learner is killed. Days are those of the local
time zone.

A run counts what it spends in memory, and its record in the store says so when it ends. `RunLimits` stops a run that
has cost enough, whose model cannot be reached, or whose skillbook cannot be written.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self, final

from ace._internal.atomic_file import append_line
from ace._internal.json_fields import number_in
from ace.pipeline import CancellationToken
from ace.protocols.errors import LLMAuthenticationError, LLMCallError, UnusableAnswerError
from ace.protocols.observers import BatchJudged, Event, ModelCalled, StepEnded
from ace.runners.failures import first_cause
from ace.skillbook.errors import SkillbookStoreError

__all__ = ["RunLimits", "RunSpend", "RunSpendCounter", "Spend", "SpendLedger", "StepTimes", "spend_of_days"]

_FOLDER = "spend"


@dataclass(frozen=True)
class Spend:
    """The usage of some calls of a model."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """The cost of the calls whose price is known."""
    unpriced_calls: int = 0
    """The number of calls whose price is not known; the budget does not count them."""

    def plus(self, other: Spend) -> Spend:
        """Return the usage of both.

        Args:
            other: Further calls.
        """
        return Spend(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.unpriced_calls + other.unpriced_calls,
        )


class StepTimes(NamedTuple):
    """What a step of a run has cost in time, over all samples and attempts."""

    calls: int = 0
    """How often it ended."""
    failed: int = 0
    """How often it raised."""
    seconds: float = 0.0
    """How long it took in all, without the wait for its limit or lane."""

    def plus(self, other: StepTimes) -> StepTimes:
        """Return the sum of both.

        Args:
            other: Further calls of the step.
        """
        return StepTimes(self.calls + other.calls, self.failed + other.failed, self.seconds + other.seconds)


@dataclass(frozen=True)
class RunSpend:
    """What a run has spent, over all its calls.

    Example:
        >>> one = RunSpend(seconds=2.0, steps={"ReflectStep": StepTimes(4, 1, 6.5)})
        >>> RunSpend.from_record(one.plus(one).to_record()).steps
        {'ReflectStep': StepTimes(calls=8, failed=2, seconds=13.0)}
    """

    models: Spend = field(default_factory=Spend)
    """The calls of models; those whose answer was recorded by an earlier call of the run are counted once."""
    seconds: float = 0.0
    """How long the calls of the run took."""
    accepted: int = 0
    """How many times a gate has accepted the changes of a sample."""
    refused: int = 0
    """How many times a gate has refused them."""
    steps: Mapping[str, StepTimes] = field(default_factory=dict)
    """The times of each step, by the name of its class, in the order in which they first ended."""

    def plus(self, other: RunSpend) -> RunSpend:
        """Return the sum of both.

        Args:
            other: What a later call of the run has spent.
        """
        nothing = StepTimes()
        steps = {**self.steps, **other.steps}
        return RunSpend(
            self.models.plus(other.models),
            self.seconds + other.seconds,
            self.accepted + other.accepted,
            self.refused + other.refused,
            {step: self.steps.get(step, nothing).plus(other.steps.get(step, nothing)) for step in steps},
        )

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "steps": {step: times._asdict() for step, times in self.steps.items()}}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return what `to_record` has returned.

        Args:
            record: The JSON values.
        """
        steps = {step: StepTimes(**times) for step, times in record["steps"].items()}
        return cls(**{**record, "models": Spend(**record["models"]), "steps": steps})


@final
class RunSpendCounter:
    """An observer that counts what a run spends.

    Args:
        run_id: The name of the run; the events of others are ignored.

    Example:
        >>> counter = RunSpendCounter("monday")
        >>> counter(StepEnded("monday", "trace 1", "ReflectStep", 1.5, None))
        >>> counter.taken().steps, counter.taken().steps
        ({'ReflectStep': StepTimes(calls=1, failed=0, seconds=1.5)}, {})
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lock = threading.Lock()
        self._spent = RunSpend()
        self._steps: dict[str, StepTimes] = {}

    def __call__(self, event: Event) -> None:
        """Count a model call, a step or a decision of a gate."""
        if not isinstance(event, ModelCalled | StepEnded | BatchJudged) or event.run_id != self._run_id:
            return
        with self._lock:
            match event:
                case StepEnded():
                    before = self._steps.get(event.step, StepTimes())
                    self._steps[event.step] = before.plus(StepTimes(1, int(event.error is not None), event.seconds))
                case ModelCalled():
                    if not event.recorded:  # else it was paid for earlier
                        self._spent = self._spent.plus(RunSpend(_spend_of_call(event)))
                case BatchJudged():
                    self._spent = self._spent.plus(
                        RunSpend(accepted=int(event.accepted), refused=int(not event.accepted))
                    )

    def taken(self) -> RunSpend:
        """Return what was counted since the last call of this method."""
        with self._lock:
            spent = self._spent.plus(RunSpend(steps=self._steps))
            self._spent, self._steps = RunSpend(), {}
        return spent


def _spend_of_call(event: ModelCalled) -> Spend:
    return Spend(1, event.input_tokens, event.output_tokens, event.cost or 0.0, int(event.cost is None))


class SpendLedger:
    """An observer that records each model call in a folder, with its tokens and its cost.

    Args:
        folder: The folder; the files, one for each day, are in its subfolder `spend`.

    Example:
        >>> import tempfile
        >>> from ace.protocols.observers import emit, observing
        >>> folder = Path(tempfile.mkdtemp())
        >>> with observing(SpendLedger(folder)):  # around a run, whose clients emit such events
        ...     emit(ModelCalled("", "", "gpt-4o-mini", "Reflector", 900, 100, 0.0002, 1.5, recorded=False))
        >>> spend_of_days(folder, days=30).cost_usd
        0.0002
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Record a call, unless its answer was recorded and thus paid for before."""
        if not isinstance(event, ModelCalled) or event.recorded:
            return
        line = {
            "model": event.model,
            "input_tokens": event.input_tokens,
            "output_tokens": event.output_tokens,
            "cost_usd": event.cost,
        }
        with self._lock:
            append_line(_path(self._folder, _now()), json.dumps(line))


def spend_of_days(folder: Path, days: int = 1) -> Spend:
    """Return what was spent today, or in the last days.

    Args:
        folder: The folder that a `SpendLedger` was given.
        days: The number of days, including today.
    """
    today = _now()
    calls = [call for day in range(days) for call in _calls(_path(folder, today - timedelta(days=day)))]
    costs = [number_in(call, "cost_usd") for call in calls]
    return Spend(
        calls=len(calls),
        input_tokens=int(sum(number_in(call, "input_tokens") or 0 for call in calls)),
        output_tokens=int(sum(number_in(call, "output_tokens") or 0 for call in calls)),
        cost_usd=sum(cost for cost in costs if cost is not None),
        unpriced_calls=sum(cost is None for cost in costs),
    )


def _now() -> datetime:
    return datetime.now(UTC).astimezone()  # in the time zone of the user


def _path(folder: Path, day: datetime) -> Path:
    return folder / _FOLDER / f"{day:%Y-%m-%d}.jsonl"


def _calls(path: Path) -> list[dict[str, object]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:  # nothing was learned on that day
        return []
    found = []
    for line in lines:
        try:
            call = json.loads(line)
        except ValueError:  # the last line, or one that a crash has cut
            continue
        if isinstance(call, dict):
            found.append(call)
    return found


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
