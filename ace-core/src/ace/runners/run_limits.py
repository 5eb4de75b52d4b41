"""Stops a run that has cost enough, whose model cannot be reached, or whose skillbook cannot be written."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, final

from ace.protocols.errors import LLMAuthenticationError, LLMCallError
from ace.protocols.observers import Event, ModelCalled
from ace.runners.failures import first_cause
from ace.skillbook.errors import SkillbookStoreError

if TYPE_CHECKING:
    from ace.pipeline import CancellationToken

__all__ = ["RunLimits"]

logger = logging.getLogger(__name__)
stop_logger = logging.getLogger(f"{__name__}.stopped")
"""Tells a program why its run was stopped; a command does that in its own words, and leaves these out."""

_REFUSED_KEY = frozenset({401, 403})


@final
class RunLimits:
    """Cancels the token of a run when a limit is reached. What is inside a step then finishes.

    Args:
        run_id: The run whose model calls count.
        token: The token of the run.
        max_cost: US dollars; None sets no limit. Answers that an earlier call of the run paid for do not count.
        fail_fast: Whether the first failed sample stops the run.
        max_consecutive_failures: How many samples in a row whose model could not be reached stop the run.
    """

    def __init__(
        self,
        run_id: str,
        token: CancellationToken,
        max_cost: float | None,
        fail_fast: bool,
        max_consecutive_failures: int = 5,
    ) -> None:
        self._run_id = run_id
        self._token = token
        self._max_cost = max_cost
        self._fail_fast = fail_fast
        self._max_consecutive_failures = max_consecutive_failures
        self._lock = threading.Lock()
        self._consecutive_failures = 0
        self._cost = 0.0
        self._unpriced: set[str] = set()
        self.write_error: SkillbookStoreError | None = None
        """What kept the skillbook from being written, or read from its store."""

    @property
    def stopped_by(self) -> str:
        """What stopped the run: one of those in `RunEnded.stopped_by`; empty if nothing did."""
        return self._token.reason if self.write_error is None else "skillbook_not_written"

    def observe(self, event: Event) -> None:
        """Count what a model call of the run has cost."""
        if self._max_cost is None or not isinstance(event, ModelCalled):
            return
        if event.run_id != self._run_id or event.recorded:
            return
        if event.cost is None:
            self._warn(event.model)
            return
        with self._lock:
            self._cost += event.cost
            if self._cost >= self._max_cost and not self._token.is_cancelled:
                self._token.cancel("max_cost")
                logger.warning("The run has cost %.4f USD, so no further sample begins", self._cost)

    def sample_failed(self, error: BaseException) -> None:
        """Count a sample that failed, and stop the run if the samples after it would fail like it.

        Args:
            error: What went wrong.
        """
        if self._fail_fast:
            self._token.cancel("fail_fast")
        call = first_cause(error, LLMCallError)
        if call is None or call.concerns_one_request:
            return
        if isinstance(call, LLMAuthenticationError) or call.status_code in _REFUSED_KEY:
            self._stop("authentication", "the server of the model refused the key", call)
            return
        with self._lock:
            self._consecutive_failures += 1
            failures = self._consecutive_failures
        if failures >= self._max_consecutive_failures:
            self._stop("server_failures", f"the model could not be reached for {failures} samples in a row", call)

    def sample_learned(self) -> None:
        """Note that a sample was learned from, so the model can be reached."""
        with self._lock:
            self._consecutive_failures = 0

    def _stop(self, reason: str, why: str, error: LLMCallError) -> None:
        with self._lock:
            if self._token.is_cancelled:
                return
            self._token.cancel(reason)
        stop_logger.warning(
            "The run was stopped, because %s (%.300s). Continue it with run(..., run_id=%r, resume=True) if the "
            "skillbook is in a store",
            *(why, error, self._run_id),
        )

    def not_written(self, error: SkillbookStoreError) -> None:
        """Take in that the skillbook cannot be written: nothing more can be kept, so no further costs may arise."""
        with self._lock:
            if self.write_error is None:
                self.write_error = error
                self._token.cancel("skillbook_not_written")

    def _warn(self, model: str) -> None:
        with self._lock:
            if model in self._unpriced:
                return
            self._unpriced.add(model)
        logger.warning("The price of model %r is not known, so max_cost does not count its calls", model)
