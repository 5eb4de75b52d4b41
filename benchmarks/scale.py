"""How much a benchmark does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The size of a run. Ratios are only worth reading from a full one.

    Args:
        samples: How many samples the cases with instant steps run.
        rounds: How often each contender of these is measured.
        memory_samples: How many samples the cases about memory run.
        backlog: How many samples wait in the background in the case about threads.
        workload_divisor: By what the number of samples of the simulated workloads is divided.
        workload_seconds: For how long one row of a workload is repeated, reckoned by its ideal makespan.
    """

    samples: int
    rounds: int
    memory_samples: int
    backlog: int
    workload_divisor: int
    workload_seconds: float


FULL = Scale(samples=10_000, rounds=15, memory_samples=100_000, backlog=2_000, workload_divisor=1, workload_seconds=6.0)
QUICK = Scale(samples=500, rounds=3, memory_samples=2_000, backlog=200, workload_divisor=25, workload_seconds=0.0)
