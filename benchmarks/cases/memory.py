"""Memory that a run takes above its contexts and outputs."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator

from ace.pipeline import Pipeline

from ..checks import Results, returns_the_contexts
from ..contexts import SixFields, make_contexts
from ..floors import Flag, semantic_loop
from ..rows import CostRow
from ..scale import Scale
from ..steps import BackgroundNoOp, LaneNoOp, NoOp, Step
from ..wrong_result import require

STEPS = 4
RESULT_LIST = "a list of results, made by a loop"


def memory(scale: Scale) -> list[CostRow]:
    """Bytes that are allocated at the peak, with all results kept (goal 9)."""
    contexts = make_contexts(scale.memory_samples)
    named = [("NoOp", NoOp().__call__) for _ in range(STEPS)]
    floor = _peak_of(lambda: semantic_loop(named, contexts, Flag()), contexts)
    foreground: list[Step] = [NoOp(), NoOp(), NoOp()]
    rows = []
    for what, last, workers in (
        ("run()", NoOp(), 1),
        ("run(workers=4)", NoOp(), 4),
        ("with a boundary", BackgroundNoOp(), 1),
        ("with a boundary and a lane", LaneNoOp(), 1),
    ):
        pipeline = Pipeline[SixFields]([*foreground, last])
        _run(pipeline, contexts[:100], workers)  # what is loaded and made once is not counted for the samples
        peak = _peak_of(lambda: _run(pipeline, contexts, workers), contexts)  # noqa: B023 - called at once
        rows.append(
            CostRow(
                case="memory",
                what=f"memory above contexts and outputs, {what}",
                unit="bytes/sample",
                value=peak / len(contexts),
                to_bare=None,
                floor=RESULT_LIST,
                to_floor=peak / floor,
                goal=1.7,
            )
        )
    return rows


def memory_streamed(scale: Scale) -> list[CostRow]:
    """Bytes at the peak of a long stream against those of one a tenth as long: there is no growth (goal 9)."""
    rows = []
    for what, last in (("4 plain steps", NoOp()), ("with a boundary", BackgroundNoOp())):
        pipeline = Pipeline[SixFields]([NoOp(), NoOp(), NoOp(), last], background_limit=100)
        _stream_peak(pipeline, scale.memory_samples // 10)
        short = _highest_stream_peak(pipeline, scale.memory_samples // 10)
        long = _highest_stream_peak(pipeline, scale.memory_samples)
        rows.append(
            CostRow(
                case="memory-streamed",
                what=f"memory of stream(workers=4), {what}",
                unit="bytes/sample",
                value=long / scale.memory_samples,
                to_bare=None,
                floor="a stream a tenth as long",
                to_floor=long / short,
                goal=1.7,
            )
        )
    return rows


def _run(pipeline: Pipeline[SixFields], contexts: list[SixFields], workers: int) -> Results:
    results = pipeline.run(contexts, workers=workers)
    pipeline.wait_for_background()
    return results


def _peak_of(run: Callable[[], Results], contexts: list[SixFields]) -> int:
    gc.collect()
    tracemalloc.start()
    results = run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    returns_the_contexts(contexts)(results)
    return peak


def _highest_stream_peak(pipeline: Pipeline[SixFields], count: int) -> int:
    # How far the background was ever filled, up to its limit, is a matter of timing.
    return max(_stream_peak(pipeline, count) for _ in range(3))


def _stream_peak(pipeline: Pipeline[SixFields], count: int) -> int:
    def contexts() -> Iterator[SixFields]:
        for place in range(count):
            yield SixFields(place)

    gc.collect()
    tracemalloc.start()
    seen = total = 0
    for result in pipeline.stream(contexts(), workers=4):
        require(result.error is None, f"sample {result.sample} failed: {result.error!r}")
        seen += 1
        total += result.sample
    pipeline.wait_for_background()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    require((seen, total) == (count, count * (count - 1) // 2), f"{seen} results for {count} samples")
    return peak
