"""Helpers of the tests that send to Opik."""

from __future__ import annotations

import time
from collections.abc import Callable

from ace_opik import connection


def close_connections() -> None:
    """Close what is closed at the end of a process otherwise."""
    for opened in connection._connections.values():
        opened.close()
    connection._connections.clear()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for work on the threads of LiteLLM."""
    while not condition():
        time.sleep(0.02)
