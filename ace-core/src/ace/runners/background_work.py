"""Work that goes on after `run` has returned, and that the interpreter waits for when it exits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

from ace.pipeline import Pipeline, SampleResult, StepContext

__all__ = ["BackgroundWork"]

logger = logging.getLogger(__name__)


class _DoWork:
    """Calls the function that is the sample. Behind the boundary, so the engine waits for it at the exit."""

    requires = frozenset({"sample"})
    provides: frozenset[str] = frozenset()
    async_boundary = True

    def __init__(self) -> None:
        self.max_workers = 100  # it mostly waits; a limit of its own, so that runners do not wait for each other

    def __call__(self, ctx: StepContext) -> StepContext:
        try:
            ctx.sample()
        except Exception:
            logger.exception("A run could not be finished in the background")
            raise
        return ctx


@final
class BackgroundWork:
    """Calls functions one by one in the background of a pipeline of its own."""

    def __init__(self) -> None:
        self._pipeline = Pipeline[StepContext]([_DoWork()])
        self._results: list[SampleResult[StepContext]] = []

    def start(self, work: Callable[[], None]) -> None:
        """Have a function called, and return at once."""
        self._results += self._pipeline.run([StepContext(work)])

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything has been done.

        Args:
            timeout: Seconds to wait at most; None waits for ever.

        Raises:
            TimeoutError: It is not done by then.
            BaseException: What a function raised; told once.
        """
        self._pipeline.wait_for_background(timeout)
        results, self._results = self._results, []
        for result in results:
            if result.error is not None:
                raise result.error
