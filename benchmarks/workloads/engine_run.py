"""A workload on the engine."""

import time

from ace.pipeline import Pipeline

from ..checks import require_success
from ..contexts import SixFields, make_contexts
from ..wrong_result import require
from .measured import Measured, require_all_done
from .waiting_steps import AsyncWaitingStep, WaitingStep
from .workload import Workload


def run_on_engine(workload: Workload, workers: int, *, ordered: bool) -> Measured:
    """Run it once, and check what came out.

    Args:
        workload: The workload.
        workers: How many samples may be in the foreground at once.
        ordered: Whether the last two steps are a lane.

    Raises:
        WrongResult: If a sample was lost or failed, or a limit or the order was broken.
    """
    steps = _make_steps(workload, ordered=ordered)
    pipeline = Pipeline[SixFields](steps, background_limit=workload.count + 1)
    contexts = make_contexts(workload.count)
    cpu = time.process_time()
    start = time.perf_counter()
    results = pipeline.run(contexts, workers=workers)
    returned = time.perf_counter() - start
    pipeline.wait_for_background()
    makespan = time.perf_counter() - start
    cpu_seconds = time.process_time() - cpu
    pipeline.close()  # the next run starts its threads anew, as the reference does
    require_success(results, workload.count)
    require_all_done(workload, workers, steps, [result.output for result in results])
    inversions = steps[-1].attendance.inversions()
    require(not ordered or inversions == 0, f"{inversions} samples of workload {workload.name} came out of turn")
    threads = max(step.attendance.threads for step in steps)
    return Measured(makespan, returned, cpu_seconds, inversions, threads)


def _make_steps(workload: Workload, *, ordered: bool) -> list[WaitingStep | AsyncWaitingStep]:
    lane_key = object() if ordered else None
    first, lane = len(workload.foreground), len(workload.steps) - 2
    steps: list[WaitingStep | AsyncWaitingStep] = []
    for place, step in enumerate(workload.steps):
        is_behind = place >= first
        kind = AsyncWaitingStep if workload.is_async and (is_behind or not workload.background) else WaitingStep
        in_lane = is_behind and place >= lane
        steps.append(kind(step, is_boundary=place == first, lane_key=lane_key if in_lane else None))
    return steps
