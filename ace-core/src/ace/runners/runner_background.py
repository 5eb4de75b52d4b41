"""What happens in the background of a runner, over all of its runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import final

from ace.context import ACEStepContext
from ace.pipeline import Pipeline
from ace.runners.background_work import BackgroundWork

__all__ = ["RunnerBackground", "summed_stats"]


@final
class RunnerBackground:
    """The pipelines that a runner has used, and the ends of runs that are not waited for.

    Args:
        pipeline: The first pipeline.
    """

    def __init__(self, pipeline: Pipeline[ACEStepContext]) -> None:
        self._pipelines = [pipeline]
        self._finishing = BackgroundWork()

    def __iter__(self) -> Iterator[Pipeline[ACEStepContext]]:
        return iter(self._pipelines)

    def use(self, pipeline: Pipeline[ACEStepContext]) -> None:
        """Take in a pipeline that is used from now on."""
        if pipeline not in self._pipelines:
            self._pipelines.append(pipeline)

    def finish(self, work: Callable[[], None]) -> None:
        """Have the end of a run done, and return at once."""
        self._finishing.start(work)

    @property
    def stats(self) -> dict[str, int]:
        """Samples in the background: active, queued, completed and, of these, failed."""
        return summed_stats(pipeline.background_stats() for pipeline in self._pipelines)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all of it is done.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: It is not done by then; the text says how many samples are left.
            Exception: What kept a run from being finished.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for pipeline in self._pipelines:
            pipeline.wait_for_background(_left(end))
        self._finishing.wait(_left(end))


def summed_stats(stats: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of the numbers that several backgrounds have.

    Args:
        stats: What `Pipeline.background_stats` says of each.

    Example:
        >>> summed_stats([{"active": 1, "queued": 0, "completed": 2, "failed": 0}] * 2)
        {'active': 2, 'queued': 0, 'completed': 4, 'failed': 0}
    """
    each = list(stats)
    return {name: sum(numbers[name] for numbers in each) for name in ("active", "queued", "completed", "failed")}


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
