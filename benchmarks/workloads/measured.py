"""What came out of one run of a workload."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..contexts import SixFields
from ..wrong_result import require
from .waiting_steps import AsyncWaitingStep, WaitingStep
from .workload import Workload


@dataclass(frozen=True)
class Measured:
    """One run.

    Args:
        makespan: When the last sample was done, in seconds of wall time.
        returned: When the foreground was done.
        cpu_seconds: CPU time of the process.
        inversions: How many samples reached the last step after one that came later in the input.
        threads: The most threads that the process had.
    """

    makespan: float
    returned: float
    cpu_seconds: float
    inversions: int
    threads: int


def require_all_done(
    workload: Workload,
    workers: int,
    steps: Sequence[WaitingStep | AsyncWaitingStep],
    outputs: Sequence[SixFields | None],
) -> None:
    """Require that each sample has passed all steps, once and in order, and never too many one of them.

    Raises:
        WrongResult: If not.
    """
    trace = tuple(step.name for step in workload.steps)
    expected = [SixFields(sample, trace=trace) for sample in range(workload.count)]
    require(len(outputs) == workload.count, f"{len(outputs)} outputs for {workload.count} samples")
    for output, wanted in zip(outputs, expected, strict=True):
        require(output == wanted, f"workload {workload.name}: {output!r} instead of {wanted!r}")
    for place, step in enumerate(steps):
        limit = workers if place < len(workload.foreground) else step.step.servers
        seen = step.attendance
        require(sorted(seen.order) == list(range(workload.count)), f"{step.step.name} did not see each sample once")
        require(seen.most <= limit, f"{seen.most} samples were inside {step.step.name}, whose limit is {limit}")
