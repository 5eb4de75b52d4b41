"""The shortest time in which a workload can be done."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from .workload import TimedStep, Workload


@dataclass(frozen=True)
class Optimum:
    """What no scheduler can beat that serves each station first come, first served.

    Args:
        makespan: When the last sample has left the last station, in seconds.
        returned: When the last sample has left the foreground.
    """

    makespan: float
    returned: float


@dataclass(frozen=True)
class _Station:
    seconds: tuple[float, ...]
    servers: int
    in_input_order: bool


def optimum(workload: Workload, workers: int, *, ordered: bool) -> Optimum:
    """Simulate stations that never idle while somebody waits for them.

    The foreground is one station: a worker stays with its sample through all of it.

    Args:
        workload: The workload.
        workers: How many samples may be in the foreground at once.
        ordered: Whether the last two steps of the background are one lane, which serves in input order.
    """
    foreground = _Station(_together(workload.foreground), workers, in_input_order=True)
    times = _leave(foreground, [0.0] * workload.count)
    returned = max(times)
    for station in _background(workload.background, ordered=ordered):
        times = _leave(station, times)
    return Optimum(max(times), returned)


def lower_bound(workload: Workload, workers: int) -> float:
    """A bound that holds for fixed latencies: the busiest station, and the way to it and from it for one sample."""
    stations = [(sum(step.seconds[0] for step in workload.foreground), workers)]
    stations += [(step.seconds[0], step.servers) for step in workload.background]
    latencies = [latency for latency, _ in stations]
    return max(
        sum(latencies[:place]) + workload.count * latency / servers + sum(latencies[place + 1 :])
        for place, (latency, servers) in enumerate(stations)
    )


def _background(steps: Sequence[TimedStep], *, ordered: bool) -> list[_Station]:
    if not ordered:
        return [_Station(step.seconds, step.servers, in_input_order=False) for step in steps]
    parallel, lane = steps[:-2], steps[-2:]
    return [
        *(_Station(step.seconds, step.servers, in_input_order=False) for step in parallel),
        _Station(_together(lane), 1, in_input_order=True),
    ]


def _together(steps: Sequence[TimedStep]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*(step.seconds for step in steps), strict=True)))


def _leave(station: _Station, arrivals: Sequence[float]) -> list[float]:
    """Return when each sample leaves a station that they arrive at at these times."""
    free_at = [0.0] * station.servers
    heapify(free_at)
    leaves = [0.0] * len(arrivals)
    samples = range(len(arrivals))
    for sample in samples if station.in_input_order else sorted(samples, key=lambda number: (arrivals[number], number)):
        leaves[sample] = max(arrivals[sample], free_at[0]) + station.seconds[sample]
        heapreplace(free_at, leaves[sample])
    return leaves
