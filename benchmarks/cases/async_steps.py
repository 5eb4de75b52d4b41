"""Asynchronous steps, on the engine's loop and on the caller's."""

import asyncio
from collections.abc import Sequence
from functools import partial

from ace.pipeline import Pipeline, SampleResult

from ..checks import check_trace, equals, returns_the_contexts
from ..contexts import SixFields, make_contexts
from ..costs import BARE, measure
from ..floors import AsyncCall, bare_async_loop, pulling_tasks
from ..interleaved import timed
from ..rows import CostRow
from ..scale import Scale
from ..steps import AsyncNoOp, Step, traced

STEPS = 4
WORKERS = 4
FOUR_TASKS = "4 tasks pulling from one iterator"


def async_steps(scale: Scale) -> list[CostRow]:
    """Four asynchronous steps (goal 3)."""
    steps: list[Step] = [AsyncNoOp() for _ in range(STEPS)]
    calls = [AsyncNoOp().__call__ for _ in range(STEPS)]
    contexts = make_contexts(scale.samples)
    check_trace(partial(Pipeline(traced(steps)).run, workers=WORKERS), "0123")
    check_trace(partial(_run_async, Pipeline(traced(steps))), "0123")
    pipeline = Pipeline(steps)
    check = returns_the_contexts(contexts)
    contenders = {
        BARE: timed(partial(_bare, calls, contexts), equals(contexts)),
        FOUR_TASKS: timed(partial(_tasks, calls, contexts), equals(contexts)),
        "4 async steps, run(workers=4)": timed(partial(pipeline.run, contexts, WORKERS), check),
        "4 async steps, run_async(workers=4)": timed(partial(_run_async, pipeline, contexts), check),
    }
    costs = measure("async", "step", scale.samples * STEPS, scale.rounds, contenders)
    return [
        costs.row("4 async steps, run(workers=4)", FOUR_TASKS, goal=4.6),
        costs.row("4 async steps, run_async(workers=4)", FOUR_TASKS, goal=4.6),
    ]


def _bare(calls: Sequence[AsyncCall], contexts: list[SixFields]) -> list[SixFields]:
    return asyncio.run(bare_async_loop(calls, contexts))


def _tasks(calls: Sequence[AsyncCall], contexts: list[SixFields]) -> list[SixFields]:
    return asyncio.run(pulling_tasks(calls, contexts, WORKERS))


def _run_async(pipeline: Pipeline[SixFields], contexts: list[SixFields]) -> list[SampleResult[SixFields]]:
    return asyncio.run(pipeline.run_async(contexts, workers=WORKERS))
