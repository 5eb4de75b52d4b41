"""What tests of sending need: Opik's client, which is installed in the session of the wheel.

It is too large for the environment of all distributions.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

from ace_opik import connection
from tests.requirement import missing


def needs_opik() -> None:
    """Skip the test if `opik` is not installed."""
    if importlib.util.find_spec("opik") is None:
        missing("opik", "opik is not installed; run nox -s \"wheels(distribution='ace-opik')\"")


def close_connections() -> None:
    """Close what is closed at the end of a process otherwise."""
    for opened in connection._connections.values():
        opened.close()
    connection._connections.clear()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for work on the threads of LiteLLM."""
    while not condition():
        time.sleep(0.02)
