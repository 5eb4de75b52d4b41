"""Stops a tool call: its run starts no further samples, and an open request to the model is cancelled.

Who does what on which thread:

- A tool call runs on its own thread, inside `stoppable(stop)`. The engine's threads that work for the call inherit the
  context variable.
- `StoppableClient` makes each request with the asynchronous method of the client, on one event loop for all sessions,
  and waits for it. `Stop.stop` cancels the task there, which closes the connection or ends the wait between two
  attempts.
- A client without asynchronous methods is called on a daemon thread. When the call is stopped, the request is
  abandoned: it ends at its own time limit, and its answer is discarded.
- `Stop.stop` may be called on any thread, any number of times.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, final

from ace import CancellationToken, PipelineCancelled

if TYPE_CHECKING:
    from ace import LLMClientLike, LLMResponse
    from ace.protocols import StructuredAnswer

__all__ = ["Stop", "StoppableClient", "current_stop", "stoppable"]


@final
class Stop:
    """Stops a tool call, and tells whether and why it was stopped.

    Example:
        >>> stop = Stop()
        >>> stop.stop("timeout")
        >>> stop.stop("cancelled")  # the first reason is kept
        >>> stop.reason, stop.token.is_cancelled
        ('timeout', True)
    """

    def __init__(self) -> None:
        self.token = CancellationToken()
        """The token of the run."""
        self._lock = threading.Lock()
        self._requests: set[Future[Any]] = set()

    @property
    def reason(self) -> str:
        """Why it was stopped; empty if it was not."""
        return self.token.reason

    def stop(self, reason: str) -> None:
        """Stop the call.

        Args:
            reason: Why, in one word.
        """
        with self._lock:
            self.token.cancel(reason)
            requests = list(self._requests)
        for request in requests:
            request.cancel()

    @contextmanager
    def requesting(self, request: Future[Any]) -> Iterator[None]:
        """Cancel a request if the call is stopped while the block runs, or was stopped before.

        Args:
            request: The future of the answer.
        """
        with self._lock:
            self._requests.add(request)
            if self.token.is_cancelled:
                request.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._requests.discard(request)


_current: contextvars.ContextVar[Stop | None] = contextvars.ContextVar("ace_mcp_stop", default=None)


def current_stop() -> Stop | None:
    """Return the `Stop` of the tool call that this thread works for; None outside of one."""
    return _current.get()


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Make the requests to models inside the block stoppable.

    Args:
        stop: Stops them.
    """
    token = _current.set(stop)
    try:
        yield
    finally:
        _current.reset(token)


@final
class StoppableClient:
    """A model client whose requests end when the tool call is stopped.

    Args:
        client: Makes the requests.
        before_request: Called before each request; it raises to prevent it.
    """

    def __init__(self, client: LLMClientLike, before_request: Callable[[], None]) -> None:
        self._client = client
        self._before_request = before_request

    def __getattr__(self, name: str) -> Any:  # attributes that roles read, such as `is_small_model`
        return getattr(self._client, name)

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: Settings for this call.

        Raises:
            PipelineCancelled: The tool call was stopped.
        """
        response: LLMResponse = self._requested("complete", prompt, **kwargs)
        return response

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: Settings for this call.

        Raises:
            PipelineCancelled: The tool call was stopped.
        """
        answer: StructuredAnswer = self._requested("complete_structured", prompt, response_model, **kwargs)
        return answer

    def _requested(self, method: str, *args: Any, **kwargs: Any) -> Any:  # what the method of the client returns
        self._before_request()
        stop = _current.get() or Stop()
        twin = getattr(self._client, f"a{method}", None)
        if inspect.iscoroutinefunction(twin):
            request = _loop.start(twin(*args, **kwargs))
        else:
            request = _on_thread(lambda: getattr(self._client, method)(*args, **kwargs))
        with stop.requesting(request):
            try:
                return request.result()
            except CancelledError:
                raise PipelineCancelled(f"the request to the model was stopped: {stop.reason}") from None


@final
class _RequestLoop:
    """An event loop on a daemon thread, which is started by the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, request: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine, which sees the context variables of the caller."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="ace-mcp-requests", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(request, self._loop)


_loop = _RequestLoop()


def _on_thread(call: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(call)
        except BaseException as error:
            with suppress(InvalidStateError):  # the call was stopped
                future.set_exception(error)
        else:
            with suppress(InvalidStateError):
                future.set_result(value)

    threading.Thread(target=work, name="ace-mcp-request", daemon=True).start()
    return future
