"""Requests to models that are stopped: also one that begins after the stop, and one of a client that only blocks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ace import LLMResponse, PipelineCancelled
from ace_mcp.stopping import Stop, StoppableClient, stoppable


class Waiting:
    """A client that answers when it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        self.asked.set()
        self.let_go.wait()
        return LLMResponse("late")

    def complete_structured(self, prompt: str, response_model: type[Any], **kwargs: Any) -> Any:
        raise AssertionError("these tests only complete prompts")


class AsyncWaiting(Waiting):
    """The same with an asynchronous method, which is never let go."""

    async def acomplete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        self.asked.set()
        await asyncio.Event().wait()
        return LLMResponse("never")


@pytest.mark.parametrize("kind", [Waiting, AsyncWaiting])
@pytest.mark.parametrize("is_early", [True, False])
def test_a_stopped_request_is_not_waited_for(kind: type[Waiting], is_early: bool) -> None:
    """It hangs if the request is waited for."""
    client, stop = kind(), Stop()

    def stop_later() -> None:
        client.asked.wait()
        stop.stop("cancelled")

    stopping = threading.Thread(target=stop_later)
    if is_early:
        stop.stop("cancelled")
    else:
        stopping.start()
    with stoppable(stop), pytest.raises(PipelineCancelled, match="cancelled"):
        StoppableClient(client, lambda: None).complete("?")
    client.let_go.set()
    if not is_early:
        stopping.join()
