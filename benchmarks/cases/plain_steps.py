"""Plain steps: `run()`, and `run_async()` whose loop stays free."""

import asyncio
import threading
from functools import partial

from ace.pipeline import CancellationToken, Pipeline, SampleResult

from ..checks import check_trace, equals, returns_the_contexts, returns_with_answer
from ..contexts import SixFields, make_contexts
from ..costs import BARE, measure
from ..floors import Flag, bare_loop, pulling_threads, semantic_loop, semantic_loop_in_thread
from ..interleaved import timed
from ..rows import CostRow
from ..scale import Scale
from ..steps import NoOp, OneField, Step, traced
from ..wrong_result import require

STEPS = 4
SEMANTIC_LOOP = "loop with the promised semantics"
LOOP_IN_THREAD = "loop with the promised semantics, in a thread"
FOUR_THREADS = "4 threads pulling from one iterator"


def plain(scale: Scale) -> list[CostRow]:
    """Four plain steps on the caller's thread (goal 1)."""
    steps: list[Step] = [NoOp() for _ in range(STEPS)]
    calls = [NoOp().__call__ for _ in range(STEPS)]
    named = [("NoOp", call) for call in calls]
    contexts = make_contexts(scale.samples)
    check_trace(Pipeline(traced(steps)).run, "0123")
    pipeline = Pipeline(steps)
    check = returns_the_contexts(contexts)
    contenders = {
        BARE: timed(partial(bare_loop, calls, contexts), equals(contexts)),
        SEMANTIC_LOOP: timed(partial(semantic_loop, named, contexts, Flag()), check),
        "4 plain steps, run()": timed(partial(pipeline.run, contexts), check),
        "same, with a cancel_token": timed(lambda: pipeline.run(contexts, cancel_token=CancellationToken()), check),
    }
    costs = measure("plain", "step", scale.samples * STEPS, scale.rounds, contenders)
    return [
        costs.row("4 plain steps, run()", SEMANTIC_LOOP, goal=2.8),
        costs.row("same, with a cancel_token", SEMANTIC_LOOP),
    ]


def plain_one_field(scale: Scale) -> list[CostRow]:
    """Four plain steps that each change a field, as most steps of users do."""
    steps: list[Step] = [OneField() for _ in range(STEPS)]
    calls = [OneField().__call__ for _ in range(STEPS)]
    named = [("OneField", call) for call in calls]
    contexts = make_contexts(scale.samples)
    expected = [ctx.replace(answer=1) for ctx in contexts]
    pipeline = Pipeline(steps)
    check = returns_with_answer(contexts, 1)
    contenders = {
        BARE: timed(partial(bare_loop, calls, contexts), equals(expected)),
        SEMANTIC_LOOP: timed(partial(semantic_loop, named, contexts, Flag()), check),
        "4 steps that change a field, run()": timed(partial(pipeline.run, contexts), check),
    }
    costs = measure("plain-one-field", "step", scale.samples * STEPS, scale.rounds, contenders)
    return [costs.row("4 steps that change a field, run()", SEMANTIC_LOOP)]


def plain_threads(scale: Scale) -> list[CostRow]:
    """Four plain steps off the caller's thread: `run_async()` (goal 2), and more than one worker."""
    steps: list[Step] = [NoOp() for _ in range(STEPS)]
    calls = [NoOp().__call__ for _ in range(STEPS)]
    named = [("NoOp", call) for call in calls]
    contexts = make_contexts(scale.samples)
    _require_a_free_loop()
    traced_pipeline = Pipeline(traced(steps))
    for workers in (1, 4):
        check_trace(partial(_run_async, traced_pipeline, workers), "0123")
        check_trace(partial(traced_pipeline.run, workers=workers), "0123")
    pipeline = Pipeline(steps)
    check = returns_the_contexts(contexts)
    contenders = {
        BARE: timed(partial(bare_loop, calls, contexts), equals(contexts)),
        LOOP_IN_THREAD: timed(partial(semantic_loop_in_thread, named, contexts, Flag()), check),
        FOUR_THREADS: timed(partial(pulling_threads, calls, contexts, 4), equals(contexts)),
        "4 plain steps, run_async()": timed(partial(_run_async, pipeline, 1, contexts), check),
        "4 plain steps, run_async(workers=4)": timed(partial(_run_async, pipeline, 4, contexts), check),
        "4 plain steps, run(workers=4)": timed(partial(pipeline.run, contexts, 4), check),
    }
    costs = measure("plain-threads", "step", scale.samples * STEPS, scale.rounds, contenders)
    return [
        costs.row("4 plain steps, run_async()", LOOP_IN_THREAD, goal=7),
        costs.row("4 plain steps, run_async(workers=4)", FOUR_THREADS),
        costs.row("4 plain steps, run(workers=4)", FOUR_THREADS),
    ]


def _run_async(pipeline: Pipeline[SixFields], workers: int, contexts: list[SixFields]) -> list[SampleResult[SixFields]]:
    return asyncio.run(pipeline.run_async(contexts, workers=workers))


class _WaitsForTheLoop:
    """Returns only after the loop has had a turn while the step was in it."""

    requires = provides = frozenset({"sample"})

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, ctx: SixFields) -> SixFields:
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        require(turned.wait(timeout=60), "a plain step blocks the loop of run_async()")
        return ctx


def _require_a_free_loop() -> None:
    async def run() -> None:
        pipeline = Pipeline[SixFields]([_WaitsForTheLoop(asyncio.get_running_loop())])
        contexts = make_contexts(8)
        returns_the_contexts(contexts)(await pipeline.run_async(contexts, workers=2))

    asyncio.run(run())
