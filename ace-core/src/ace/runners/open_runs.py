"""The runs of one runner, which may overlap, and what has to wait for them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

__all__ = ["OpenRuns"]

_inside: ContextVar[frozenset[int]] = ContextVar("ace_open_runs", default=frozenset())
"""The runners in whose runs this code is: their steps and callbacks inherit it."""


@final
class OpenRuns:
    """Counts the runs of a runner. Any number may be open; `exclusive` waits until none is.

    Invariants: while the exclusive block runs, no run is open. A run that is started inside another one of the same
    runner never waits for the exclusive block, which would wait for the outer run.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = 0
        self._users: Counter[int] = Counter()  # how many open runs use each pipeline, by its id; they keep it alive
        self._is_taken = False

    def enter(self) -> None:
        """Count a run, as soon as no exclusive block runs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_taken or id(self) in _inside.get())
            self._open += 1

    def leave(self) -> None:
        """Count a run as over."""
        with self._changed:
            self._open -= 1
            self._changed.notify_all()

    def use(self, pipeline: object) -> None:
        """Note that an open run uses a pipeline."""
        with self._changed:
            self._users[id(pipeline)] += 1

    def release(self, pipeline: object) -> None:
        """Note that a run does not use a pipeline any more."""
        with self._changed:
            self._users[id(pipeline)] -= 1

    def is_alone(self, pipeline: object) -> bool:
        """Whether at most one open run uses a pipeline."""
        with self._changed:
            return self._users[id(pipeline)] <= 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark the code of the block, and what it starts, as belonging to a run."""
        token = _inside.set(_inside.get() | {id(self)})
        try:
            yield
        finally:
            _inside.reset(token)

    @contextmanager
    def exclusive(self, what: str) -> Iterator[None]:
        """Wait until no run is open, and let none start while the block runs.

        Args:
            what: What the block does, for the error.

        Raises:
            RuntimeError: This is called inside a run, which would have to end first.
        """
        if id(self) in _inside.get():
            raise RuntimeError(f"{what} waits for the runs of this runner, so it cannot be called inside one of them")
        with self._changed:
            self._changed.wait_for(lambda: not self._is_taken and not self._open)
            self._is_taken = True
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()
