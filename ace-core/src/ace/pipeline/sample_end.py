"""Telling who runs a pipeline that a sample has left the background."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

from .result import SampleResult

logger = logging.getLogger(__name__)

sample_end_var: ContextVar[Callable[[SampleResult[Any]], None] | None] = ContextVar("sample_end_var", default=None)
"""Set around a run: called with each result whose sample has ended in the background, well or not.

It is called on the thread that did the last step, before samples that wait for this one's turn go on.
"""


def announce_end(context: Context, result: SampleResult[Any]) -> None:
    """Call what is set in the context of a sample, if anything is."""
    tell = context.get(sample_end_var)
    if tell is None:
        return
    try:
        tell(result)
    except Exception:
        logger.exception("sample_end_var raised for sample %.80r; the run goes on", result.sample)
