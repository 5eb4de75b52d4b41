"""The cases about makespans, one for each workload."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ..rows import MakespanRow
from ..scale import Scale
from ..wrong_result import require
from .definitions import (
    workload_a,
    workload_b,
    workload_c,
    workload_d,
    workload_e,
    workload_f,
    workload_g,
)
from .engine_run import run_on_engine
from .measured import Measured
from .reference_run import run_on_threads
from .simulation import lower_bound, optimum
from .workload import Workload

ROUNDS_AT_MOST = 15
SHORTEST_RETURN = 0.001


@dataclass(frozen=True)
class _Variant:
    """One row: how a workload is run, and what it shall not exceed."""

    workers: int
    ordered: bool = False
    goal: float | None = None
    returned_goal: float | None = None


def _case(
    name: str, make: Callable[[int], Workload], *variants: _Variant
) -> tuple[str, Callable[[Scale], list[MakespanRow]]]:
    def run(scale: Scale) -> list[MakespanRow]:
        workload = make(scale.workload_divisor)
        return [_measure(name, workload, variant, scale) for variant in variants]

    return name, run


WORKLOAD_CASES = dict(
    [
        _case(
            "workload-a",
            workload_a,
            _Variant(1, ordered=True, goal=1.01),
            _Variant(4, ordered=True, goal=1.01),
            _Variant(16, ordered=True, goal=1.01, returned_goal=1.05),
            _Variant(16, goal=1.01, returned_goal=1.05),
        ),
        _case(
            "workload-b",
            workload_b,
            _Variant(1, ordered=True, goal=1.01),
            _Variant(4, ordered=True, goal=1.01),
            _Variant(4, goal=1.01),
        ),
        _case(
            "workload-c",
            lambda divisor: workload_c(divisor, is_async=False),
            _Variant(4, goal=1.03),
            _Variant(16, goal=1.03),
            _Variant(64, goal=1.10),
        ),
        _case(
            "workload-c-async",
            lambda divisor: workload_c(divisor, is_async=True),
            _Variant(16, goal=1.03),
            _Variant(64, goal=1.10),
        ),
        _case(
            "workload-d",
            workload_d,
            _Variant(1, ordered=True, goal=1.01),
            _Variant(4, ordered=True, goal=1.01),
            _Variant(16, ordered=True, goal=1.01),
            _Variant(1, goal=1.01),
            _Variant(4, goal=1.01),
            _Variant(16, goal=1.01),
        ),
        _case("workload-e", workload_e, _Variant(16, ordered=True, goal=1.01), _Variant(16)),
        _case("workload-f", workload_f, _Variant(4, ordered=True, goal=1.01), _Variant(4)),
        _case("workload-g", workload_g, _Variant(4, ordered=True, goal=1.01), _Variant(4)),
    ]
)


def _measure(name: str, workload: Workload, variant: _Variant, scale: Scale) -> MakespanRow:
    best = optimum(workload, variant.workers, ordered=variant.ordered)
    _check_simulation(workload, variant.workers, best.makespan)
    engine: list[Measured] = []
    threads: list[Measured] = []
    rounds = max(1, min(ROUNDS_AT_MOST, int(scale.workload_seconds / best.makespan)))
    for _ in range(rounds):
        threads.append(run_on_threads(workload, variant.workers, ordered=variant.ordered))
        engine.append(run_on_engine(workload, variant.workers, ordered=variant.ordered))
    has_tail = bool(workload.background) and best.returned > SHORTEST_RETURN
    return MakespanRow(
        case=name,
        what=workload.what,
        ordered=variant.ordered,
        workers=variant.workers,
        ideal=best.makespan,
        to_ideal=median(run.makespan for run in engine) / best.makespan,
        reference_to_ideal=median(run.makespan for run in threads) / best.makespan,
        returned=median(run.returned for run in engine) / best.returned if has_tail else None,
        reference_returned=median(run.returned for run in threads) / best.returned if has_tail else None,
        inversions=max(run.inversions for run in engine) if workload.background else None,
        threads=max(run.threads for run in engine),
        cpu_seconds=median(run.cpu_seconds for run in engine),
        reference_cpu_seconds=median(run.cpu_seconds for run in threads),
        goal=variant.goal,
        returned_goal=variant.returned_goal,
    )


def _check_simulation(workload: Workload, workers: int, makespan: float) -> None:
    """Require that the optimum is where theory puts it, for latencies that are all the same."""
    if any(len(set(step.seconds)) > 1 for step in workload.steps):
        return
    bound = lower_bound(workload, workers)
    near = bound + max(sum(step.seconds[0] for step in workload.steps), bound * 0.01)
    require(bound * 0.999 <= makespan <= near, f"the simulation says {makespan:.3f} s, the bound is {bound:.3f} s")
