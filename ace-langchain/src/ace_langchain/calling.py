"""Calls a runnable, with a timeout and cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ace.pipeline import CancellationToken, PipelineCancelled
from ace_langchain.kinds import kind_of

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig

__all__ = ["CALLS", "Call", "OutOfTimeError", "call_runnable", "watched"]

Call = Literal["async", "sync", "stream"]
CALLS: tuple[Call, ...] = ("async", "sync", "stream")
T = TypeVar("T")

_LOOKING = 0.05
"""The polling interval for the cancellation token, in seconds."""
_MOST_THREADS = 1024
_LAST_WORDS = 2.0
"""The time that a cancelled call has to clean up, in seconds."""


class OutOfTimeError(TimeoutError):
    """A run exceeded its timeout."""


async def call_runnable(
    runnable: Runnable[Any, Any],
    value: object,
    config: RunnableConfig,
    options: Mapping[str, Any],
    call: Call,
    on_chunk: Callable[[Any], None] | None,
) -> object:
    """Call a runnable and return its result.

    Args:
        runnable: The runnable to call.
        value: Its input.
        config: Its config.
        options: Additional arguments of the call.
        call: `async` awaits `ainvoke`, `sync` calls `invoke` in a thread, `stream` combines the chunks of `astream`.
        on_chunk: Called with every chunk of a stream.
    """
    if call == "sync":
        work = partial(copy_context().run, partial(runnable.invoke, value, config, **options))
        return await asyncio.get_running_loop().run_in_executor(_threads(), work)
    if call == "async":
        return await runnable.ainvoke(value, config, **options)
    if kind_of(runnable) == "langgraph":
        # Values are the states of the graph, messages the tokens of its models.
        options = {"stream_mode": ["values", "messages"], **options}
    gathered: Any = None
    async for chunk in runnable.astream(value, config, **options):
        if on_chunk is not None:
            on_chunk(chunk)
        gathered = _gathered(gathered, chunk, options.get("stream_mode"))
    return gathered


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """Return a pool that starts as many threads as there are calls, because a loop's default pool may be small."""
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="ace-langchain")


def _gathered(before: Any, chunk: Any, mode: object) -> Any:
    if mode == "values":
        return chunk
    if isinstance(mode, list):
        return chunk[1] if chunk[0] == "values" else before
    try:
        return chunk if before is None else before + chunk
    except TypeError:  # such as the objects of a parser, each of which holds all that came before
        return chunk


async def watched(call: Awaitable[T], seconds: float | None, token: CancellationToken | None) -> T:
    """Await a call until it is done, times out or is cancelled.

    Args:
        call: The call to await.
        seconds: The timeout, in seconds; None waits indefinitely.
        token: The cancellation token of the run.

    Raises:
        OutOfTimeError: The call is not done in time.
        PipelineCancelled: The run was cancelled.
    """
    end = None if seconds is None else time.monotonic() + seconds
    task = asyncio.ensure_future(call)
    try:
        while not task.done():
            if token is not None and token.is_cancelled:
                raise PipelineCancelled("the run was cancelled while LangChain was running")
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise OutOfTimeError(f"no result after {seconds:g} s")
            looks = _LOOKING if token is not None else left
            await asyncio.wait({task}, timeout=looks if left is None or looks is None else min(looks, left))
        return task.result()
    finally:
        if not task.done():
            # Ignore later exceptions; asyncio logs exceptions that are never retrieved.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            for _ in range(2):  # a cancellation may be lost in what the task awaits
                task.cancel()
                await asyncio.wait({task}, timeout=_LAST_WORDS / 2)
