"""Converts the events of runs into metrics. Their sums equal the numbers in the report of `ace learn`."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ace.protocols import observers
from ace_otel import conventions as names
from ace_otel.spans import outcome_of

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

__all__ = ["RunMetrics"]

_Attributes = tuple[tuple[str, "AttributeValue"], ...]


@final
class RunMetrics:
    """Counts the events of runs.

    Counters are summed up here, and histograms are filled when metrics are sent, so that counting an event is cheap.

    Args:
        meter: Creates the instruments.
    """

    def __init__(self, meter: Meter) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[_Attributes]] = {}
        self._calls: list[tuple[_Attributes, int, int, float]] = []
        """The calls not yet in the histograms: attributes, input tokens, output tokens, seconds."""
        self._in_flight = 0
        self._in_steps = Counter({True: 0, False: 0})
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            unit="{token}",
            description="Tokens of model calls",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDS,
        )
        self._duration = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="Duration of model calls",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS,
        )
        self._counter(meter, "ace.model.cost", "USD", "Cost of model calls whose price is known")
        self._counter(meter, "ace.model.recorded_calls", "{call}", "Recorded answers that were replayed")
        self._counter(meter, "ace.samples", "{sample}", "Samples that have ended, by outcome")
        self._counter(meter, "ace.skill.changes", "{change}", "Operations on skills, by section and outcome")
        meter.create_observable_gauge(
            "ace.samples.in_flight",
            [lambda _: [Observation(self._in_flight)]],
            "{sample}",
            "Samples that have started and not ended",
        )
        meter.create_observable_gauge(
            "ace.samples.waiting",
            [lambda _: [Observation(max(0, self._in_flight - self._in_steps.total()))]],
            "{sample}",
            "Samples in flight that no step is processing: they wait for a worker, a lane or the background",
        )
        meter.create_observable_gauge(
            "ace.steps.running", [self._running], "{step}", "Steps that process a sample, by side of the boundary"
        )

    def observe(self, event: observers.Event) -> None:
        """Count one event."""
        match event:
            case observers.StepStarted():
                self._count_step(event.background, 1)
            case observers.StepEnded():
                self._count_step(event.background, -1)
            case observers.ModelCalled():
                self._count_call(event)
            case observers.SampleStarted():
                with self._lock:
                    self._in_flight += 1
            case observers.SampleEnded():
                self._count_sample(event)
            case observers.SkillsChanged():
                self._count_changes(event)

    def _counter(self, meter: Meter, name: str, unit: str, description: str) -> None:
        counts = self._counts.setdefault(name, Counter())

        def read(_: CallbackOptions) -> Iterable[Observation]:
            self._fill_histograms()
            with self._lock:
                return [Observation(value, dict(attributes)) for attributes, value in counts.items()]

        meter.create_observable_counter(name, [read], unit, description)

    def _running(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._in_steps[side], {names.BACKGROUND: side}) for side in (False, True)]

    def _add(self, name: str, amount: float, *attributes: tuple[str, AttributeValue]) -> None:
        with self._lock:
            self._counts[name][attributes] += amount  # type: ignore[assignment]  # a Counter may hold floats

    def _count_step(self, background: bool, change: int) -> None:
        with self._lock:
            self._in_steps[background] += change

    def _count_call(self, event: observers.ModelCalled) -> None:
        if event.recorded:  # an earlier call of the run has paid for it
            self._add("ace.model.recorded_calls", 1, (names.REQUEST_MODEL, event.model), (names.ROLE, event.role))
            return
        attributes = (
            (names.OPERATION, "chat"),
            (names.PROVIDER, names.provider_of(event.model)),
            (names.REQUEST_MODEL, event.model.rpartition("/")[2]),
            (names.ROLE, event.role),
            *((names.RESPONSE_MODEL, event.response_model) for _ in range(bool(event.response_model))),
            *names.server_attributes(event.server).items(),
        )
        with self._lock:
            self._calls.append((attributes, event.input_tokens, event.output_tokens, event.seconds))
        if event.cost is not None:
            self._add("ace.model.cost", event.cost, *attributes)

    def _fill_histograms(self) -> None:
        """Record the calls since the last time, before OpenTelemetry reads the histograms: it reads counters first."""
        with self._lock:
            calls, self._calls = self._calls, []
        for pairs, input_tokens, output_tokens, seconds in calls:
            attributes = dict(pairs)
            self._tokens.record(input_tokens, {**attributes, names.TOKEN_TYPE: "input"})
            self._tokens.record(output_tokens, {**attributes, names.TOKEN_TYPE: "output"})
            self._duration.record(seconds, attributes)

    def _count_sample(self, event: observers.SampleEnded) -> None:
        if event.seconds:  # otherwise it was skipped, and never started
            with self._lock:
                self._in_flight -= 1
        self._add("ace.samples", 1, (names.OUTCOME, outcome_of(event)))

    def _count_changes(self, event: observers.SkillsChanged) -> None:
        for change in (*event.applied, *event.skipped):
            section = change.skill_id.rpartition("-")[0]
            self._add(
                "ace.skill.changes",
                1,
                ("ace.skill.operation", change.kind),
                ("ace.skill.section", section),
                ("ace.skill.applied", not change.reason),
            )
