"""Helpers of the tests that send to Opik."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ace.providers import load_litellm
from ace_opik import connection


@contextmanager
def without_callbacks() -> Iterator[None]:
    """Begin without calls that LiteLLM has yet to report, and remove its callbacks at the end; both are global.

    LiteLLM reports calls of an event loop that has ended in the next loop, so those of earlier tests would arrive.
    """
    litellm: Any = load_litellm()
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    worker: Any = GLOBAL_LOGGING_WORKER  # not typed
    asyncio.run(worker.clear_queue())
    yield
    litellm.success_callback.clear()
    litellm._async_success_callback.clear()


def close_connections() -> None:
    """Close what is closed at the end of a process otherwise."""
    for opened in connection._connections.values():
        opened.close()
    connection._connections.clear()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for work on the threads of LiteLLM."""
    while not condition():
        time.sleep(0.02)
