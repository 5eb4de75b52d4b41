"""Helpers of the tests that send to Opik."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ace.providers import load_litellm
from ace_opik import connection


@contextmanager
def without_callbacks() -> Iterator[None]:
    """Remove LiteLLM's callbacks at the end; they are those of the process."""
    litellm: Any = load_litellm()
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
