"""Keeps the agent from running ahead of what it could have learned."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, final

from ace.arguments import whole_number

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import CancellationToken, Pipeline

__all__ = ["LearningLag", "most_under_way"]

_REFLECTIONS_AHEAD = 3
"""As many as the reflect step makes at once: fewer would leave it idle."""
_SHORTEST_WAIT = 0.0002
_LONGEST_WAIT = 0.01


def most_under_way(workers: int, lag: int | None) -> int:
    """Return how many earlier samples may be under way when an agent begins with one.

    Args:
        workers: How many agents run at once.
        lag: What the caller of `run` wants; by default, with the sample that begins, there are `workers + 3`.

    Raises:
        ValueError: One of them is no such number.

    Example:
        >>> most_under_way(1, None), most_under_way(1, 0)
        (3, 0)
    """
    whole_number("workers", workers)
    return workers + _REFLECTIONS_AHEAD - 1 if lag is None else whole_number("lag", lag, least=0, of="samples")


@final
class LearningLag:
    """Lets a sample begin only when enough earlier samples have ended.

    The engine draws a context when a worker can begin with it, so waiting before that is all there is to do. Who ends
    may be of an earlier run, of which this one is not told. So the counts of the engine are looked at in short
    intervals, of at most ten milliseconds, which is little beside a model call.

    Args:
        pipeline: The pipeline of the run.
        limit: How many earlier samples may be under way when one begins; None sets no limit.
        token: A cancelled run waits no more.
    """

    def __init__(self, pipeline: Pipeline[ACEStepContext], limit: int | None, token: CancellationToken | None) -> None:
        self._pipeline = pipeline
        self._limit = limit
        self._token = token
        self._has_background = pipeline.has_async_boundary
        self._lock = threading.Lock()
        self._begun = 0
        self._ended_in_front = 0
        stats = pipeline.background_stats()
        # Samples of an earlier run that are still in the background count too: they will be among the completed.
        self._begun_before = stats["completed"] + stats["active"] + stats["queued"]

    def begin(self) -> None:
        """Wait until one more sample may begin, and count it."""
        wait = _SHORTEST_WAIT
        while self._limit is not None and self._under_way() > self._limit and not self._is_cancelled():
            time.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_WAIT)
        with self._lock:
            self._begun += 1

    def foreground_ended(self, *, failed: bool) -> None:
        """Count a sample that will not enter the background.

        Args:
            failed: Whether it failed; one that did not goes on in the background, where there is one.
        """
        if failed or not self._has_background:
            with self._lock:
                self._ended_in_front += 1

    def _under_way(self) -> int:
        completed = self._pipeline.background_stats()["completed"] if self._has_background else self._begun_before
        with self._lock:
            return self._begun_before + self._begun - completed - self._ended_in_front

    def _is_cancelled(self) -> bool:
        return self._token is not None and self._token.is_cancelled
