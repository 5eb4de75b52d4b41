"""Closing a stream from anywhere, also from inside itself."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import Context, ContextVar
from types import TracebackType
from typing import TypeVar, final

from .context import StepContext
from .interrupts import is_collecting, note_collections
from .result import SampleResult

C = TypeVar("C", bound=StepContext)

_streams: ContextVar[tuple[object, ...]] = ContextVar("ace_pipeline_streams", default=())
"""The streams that the current code is a part of: a step, a callback or the input of."""


@final
class Closing:
    """Says how one stream is closed, and whether who closes it may wait until its workers have ended."""

    def __init__(self) -> None:
        note_collections()
        self.is_asked = False
        self._actions: list[Callable[[], None]] = []

    def mark(self, variables: Context) -> None:
        """Have all code that runs with these variables know that it is a part of the stream."""
        variables.run(lambda: _streams.set((*_streams.get(), self)))

    @property
    def may_wait(self) -> bool:
        """Whether this thread may wait for the stream's workers.

        It may not if a worker waits for what runs here, nor if the garbage collector has dropped the stream: that
        can happen anywhere, also where this thread holds a lock that a worker needs.
        """
        return self not in _streams.get() and not is_collecting()

    def on_ask(self, *actions: Callable[[], None]) -> None:
        """Call these when the stream is asked to end."""
        self._actions += actions

    def end(self) -> None:
        """Note that there is nothing to be ended any more."""
        self._actions.clear()

    def ask(self) -> None:
        """Have the stream end soon, without waiting for it."""
        self.is_asked = True
        for action in tuple(self._actions):
            action()


@final
class ResultStream(Generator[SampleResult[C], None, None]):
    """The results of a run one by one, as a generator that can be closed while it is being asked for the next.

    Args:
        results: The results.
        closing: How they are ended early.
    """

    def __init__(self, results: Generator[SampleResult[C], None, None], closing: Closing) -> None:
        self._results = results
        self._closing = closing

    def __next__(self) -> SampleResult[C]:
        return next(self._results)

    def send(self, value: None, /) -> SampleResult[C]:
        """Return the next result, like `next`."""
        return self._results.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> SampleResult[C]:
        """Raise an error where the last result was yielded, which ends the stream."""
        if isinstance(kind, type):
            error = value if isinstance(value, BaseException) else kind() if value is None else kind(value)
        else:
            error = kind
        return self._results.throw(error.with_traceback(traceback) if traceback is not None else error)

    def close(self) -> None:
        """Draw no more samples, and wait for those in a step, unless this is a part of one of them."""
        self._closing.ask()
        try:
            self._results.close()
        except ValueError:  # another thread waits for the next result: the stream ends there
            return
