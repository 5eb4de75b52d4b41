"""`RunLimits` stops a run that has cost enough, whose model cannot be reached, or whose skillbook cannot be written."""

from __future__ import annotations

import logging
import threading
from typing import final

from ace.pipeline import CancellationToken
from ace.protocols.errors import LLMAuthenticationError, LLMCallError, UnusableAnswerError
from ace.protocols.observers import Event, ModelCalled
from ace.runners.failures import first_cause
from ace.skillbook.errors import SkillbookStoreError

__all__ = ["RunLimits"]

logger = logging.getLogger(__name__)
stop_logger = logging.getLogger(f"{__name__}.stopped")
"""Logs why a run was stopped. The command line filters it out, because it reports that itself."""

_REFUSED_KEY = frozenset({401, 403})


@final
class RunLimits:
    """Cancels the token of a run when a limit is reached. Samples that are in a step still finish it.

    Args:
        run_id: The run whose model calls count.
        token: The token of the run.
        max_cost: US dollars; None sets no limit. Answers that an earlier call of the run has paid for do not count.
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
        """The error with which the skillbook could not be written, or read from its store."""

    @property
    def stopped_by(self) -> str:
        """What stopped the run, as in `RunEnded.stopped_by`; empty if nothing did."""
        return self._token.reason if self.write_error is None else "skillbook_not_written"

    def observe(self, event: Event) -> None:
        """Add the cost of a model call of the run."""
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
        """Count a sample that failed, and stop the run if later samples would fail in the same way.

        Args:
            error: The error of the sample.
        """
        if self._fail_fast:
            self._token.cancel("fail_fast")
        call = first_cause(error, LLMCallError)
        if call is None or call.concerns_one_request:
            if call is not None or first_cause(error, UnusableAnswerError) is not None:
                self.model_reached()  # it answered, even if the answer was not usable
            return
        if isinstance(call, LLMAuthenticationError) or call.status_code in _REFUSED_KEY:
            self._stop("authentication", "the server of the model refused the key", call)
            return
        with self._lock:
            self._consecutive_failures += 1
            failures = self._consecutive_failures
        if failures >= self._max_consecutive_failures:
            self._stop("server_failures", f"the model could not be reached for {failures} samples in a row", call)

    def model_reached(self) -> None:
        """Note that the model answered, so earlier failures and later ones are not in a row."""
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
        """Stop the run because the skillbook cannot be written: what is learned from now on would be lost."""
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
