"""Steps behind the boundary."""

from functools import partial

from ace.pipeline import Pipeline, SampleResult

from ..checks import check_trace, equals, returns_the_contexts
from ..contexts import SixFields, make_contexts
from ..costs import BARE, measure
from ..floors import bare_loop, queue_loop
from ..interleaved import timed
from ..rows import CostRow
from ..scale import Scale
from ..steps import BackgroundNoOp, LaneNoOp, NoOp, Step, traced

STEPS = 4
THREE_THREADS = "queue to 3 kept threads"
ONE_THREAD = "queue to 1 kept thread"
PARALLEL = "3 steps, 1 behind the boundary (max_workers=3)"
IN_LANE = "3 steps, 1 behind the boundary in a lane"


def boundary(scale: Scale) -> list[CostRow]:
    """Three steps, and one behind the boundary, until the background is empty (goal 7)."""
    parallel: list[Step] = [NoOp(), NoOp(), NoOp(), BackgroundNoOp()]
    in_lane: list[Step] = [NoOp(), NoOp(), NoOp(), LaneNoOp()]
    calls = [NoOp().__call__ for _ in range(STEPS)]
    contexts = make_contexts(scale.samples)
    for steps in (parallel, in_lane):
        check_trace(partial(_run, Pipeline(traced(steps))), "0123")
    check = returns_the_contexts(contexts)
    contenders = {
        BARE: timed(partial(bare_loop, calls, contexts), equals(contexts)),
        THREE_THREADS: timed(partial(queue_loop, calls[:3], calls[3], contexts, 3), equals(contexts)),
        ONE_THREAD: timed(partial(queue_loop, calls[:3], calls[3], contexts, 1), equals(contexts)),
        PARALLEL: timed(partial(_run, Pipeline(parallel), contexts), check),
        IN_LANE: timed(partial(_run, Pipeline(in_lane), contexts), check),
    }
    costs = measure("boundary", "step", scale.samples * STEPS, scale.rounds, contenders)
    return [costs.row(PARALLEL, THREE_THREADS, goal=20), costs.row(IN_LANE, ONE_THREAD, goal=20)]


def _run(pipeline: Pipeline[SixFields], contexts: list[SixFields]) -> list[SampleResult[SixFields]]:
    results = pipeline.run(contexts)
    pipeline.wait_for_background()
    return results
