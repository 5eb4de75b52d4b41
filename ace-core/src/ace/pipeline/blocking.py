"""Telling the engine's event loop that plain code is about to block it."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext


def may_block_loop() -> AbstractContextManager[None]:
    """Return a context in which this thread may wait for asynchronous steps, even if it is the loop's own."""
    if f"{__package__}.event_loop" not in sys.modules:  # then no such loop runs, and asyncio need not be imported
        return nullcontext()
    from .event_loop import engine_loop

    return engine_loop.blocked()
