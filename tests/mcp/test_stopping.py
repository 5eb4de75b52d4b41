"""Requests to models that are stopped: also one that begins after the stop, and one of a client that only blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
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


@pytest.mark.parametrize("method", ["set_result", "set_exception"])
def test_a_stop_that_comes_with_the_answer_prints_nothing(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    client = Waiting()
    threads: list[threading.Thread] = []

    def complete(prompt: str, **kwargs: Any) -> LLMResponse:
        threads.append(threading.current_thread())
        client.let_go.wait()
        if method == "set_exception":
            raise LookupError
        return LLMResponse("4")

    def stop_before(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is getattr(Future, method).__code__:
            stop.stop("cancelled")

    class Letting(Stop):  # type: ignore[misc]  # it is final
        @contextmanager
        def requesting(self, request: Future[Any]) -> Iterator[None]:
            with super().requesting(request):
                client.let_go.set()
                yield

    stop = Letting()
    monkeypatch.setattr(client, "complete", complete)
    threading.setprofile(stop_before)
    try:
        with stoppable(stop), pytest.raises(PipelineCancelled):
            StoppableClient(client, lambda: None).complete("?")
    finally:
        threading.setprofile(None)
    threads[0].join()
    assert printed == []
