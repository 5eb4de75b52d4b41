"""Sees how the runs of an agent end, whatever ends them: an answer, an error, a limit, a timeout, an abandoned stream.

No hook of a middleware is called for most of these, and one that is called inside a retry knows only that attempt. The
callbacks of the framework see the end of each run; a hook of its configuration adds this handler to all of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, final
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.tracers.context import register_configure_hook

from ace_langchain.outcome import failed, outcome_of

__all__ = ["RunEnds", "run_ends"]


@dataclass(slots=True)
class _Watched:
    """A run of an agent that records."""

    messages: list[BaseMessage]
    keep: Callable[[Sequence[BaseMessage], Mapping[str, Any], Mapping[str, str] | None], object]
    places: list[tuple[BaseException, str]] = field(default_factory=list)
    is_paused: bool = False


@final
class RunEnds(BaseCallbackHandler):
    """A handler that calls back when a run of an agent ends that was announced with `watch`."""

    run_inline = True  # otherwise an asynchronous run calls it from other threads, in any order

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[UUID, tuple[UUID | None, str]] = {}
        self._watched: dict[UUID, _Watched] = {}

    def watch(
        self,
        node: UUID,
        messages: Sequence[BaseMessage],
        keep: Callable[[Sequence[BaseMessage], Mapping[str, Any], Mapping[str, str] | None], object],
    ) -> None:
        """Call `keep` once when the run ends, of which this is a node.

        Args:
            node: The id of the run of the node.
            messages: The conversation so far.
            keep: Receives the conversation, the state at the end, and, of a run that failed, the place and the error.
        """
        with self._lock:
            agent = self._runs.get(node, (None, ""))[0]
            if agent is not None:
                watched = self._watched.setdefault(agent, _Watched([], keep))
                watched.messages = list(messages)
                watched.is_paused = False

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Remember of which run it is a part."""
        self._begin(run_id, parent_run_id, str(kwargs.get("name") or ""))

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Remember of which run it is a part."""
        name = (serialized or {}).get("name") or kwargs.get("name") or ""
        self._begin(run_id, parent_run_id, f"tools/{name}")

    def on_chain_end(self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        """Record a run that ends, and add the messages of a node to its conversation."""
        with self._lock:
            self._runs.pop(run_id, None)
            ended = self._watched.pop(run_id, None)
            around = self._watched.get(parent_run_id) if parent_run_id is not None else None
            if around is not None:
                around.messages += _messages_in(outputs)
        if ended is not None and not ended.is_paused:
            state = {"messages": ended.messages} | (dict(outputs) if isinstance(outputs, Mapping) else {})
            problem = outcome_of(state, "langgraph").problem
            ended.keep(state["messages"], state, None if problem is None else {"name": "", "error": problem})

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Forget it."""
        with self._lock:
            self._runs.pop(run_id, None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Remember where the error began."""
        with self._lock:
            self._failed(error, run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a run that fails."""
        with self._lock:
            name = self._runs.get(run_id, (None, ""))[1]
            self._failed(error, run_id)
            ended = self._watched.pop(run_id, None)
        if ended is not None and not _is_pause(error):
            place = next((place for seen, place in ended.places if seen is error), name)
            ended.keep(ended.messages, {}, {"name": place, "error": _problem_of(error)})

    def _begin(self, run_id: UUID, parent: UUID | None, name: str) -> None:
        with self._lock:
            self._runs[run_id] = (parent, name)

    def _failed(self, error: BaseException, run_id: UUID) -> None:
        parent, name = self._runs.pop(run_id, (None, ""))
        while parent is not None:
            around = self._watched.get(parent)
            if around is not None:
                around.is_paused = around.is_paused or _is_pause(error)
                around.places.append((error, name))
                return
            parent = self._runs.get(parent, (None, ""))[0]


def _messages_in(outputs: object) -> Iterator[BaseMessage]:
    """Yield the messages in what a node returns: a part of the state, or commands with such parts."""
    if isinstance(outputs, BaseMessage):
        yield outputs
    elif isinstance(outputs, Mapping):
        yield from _messages_in(outputs.get("messages"))
    elif isinstance(outputs, list | tuple):
        for item in outputs:
            yield from _messages_in(item)
    elif hasattr(outputs, "update"):
        yield from _messages_in(outputs.update)


def _is_pause(error: BaseException) -> bool:
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def _problem_of(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "The run was cancelled, or it ran out of time."
    if isinstance(error, GeneratorExit):
        return "The caller stopped reading the stream before the run had ended."
    return str(failed(error).problem) if isinstance(error, Exception) else type(error).__name__


@lru_cache(maxsize=1)
def run_ends() -> RunEnds:
    """Return the handler of this process, and add it to all runs from now on."""
    handler = RunEnds()
    register_configure_hook(ContextVar("ace_run_ends", default=handler), inheritable=True)
    return handler
