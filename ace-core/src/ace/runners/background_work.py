"""Work that continues after `run` has returned, and that the interpreter waits for when it exits."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import final

from ace.pipeline.interpreter_exit import watch
from ace.pipeline.threads import threads
from ace.pipeline.waiting import Changes

__all__ = ["BackgroundWork"]

logger = logging.getLogger(__name__)


@final
class BackgroundWork:
    """Calls functions in the background, each on a thread of the engine.

    They mostly wait for samples, which the interpreter's exit counts where they are; so this has no samples of its own.
    """

    pending = 0
    failed = 0

    def __init__(self) -> None:
        self._changes = Changes(threading.Lock())
        self._running = 0
        self._errors: list[BaseException] = []

    @property
    def is_busy(self) -> bool:
        """Whether something has not been done yet."""
        return self._running > 0

    def start(self, work: Callable[[], None]) -> None:
        """Have a function called, with the context variables of the caller, and return at once."""
        variables = contextvars.copy_context()
        with self._changes.lock:
            self._running += 1
        watch(self)

        def do() -> None:
            variables.run(self._do, work)

        try:
            threads.start(do)
        except RuntimeError:  # the system has no thread left: it is done here
            do()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything has been done.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: It is not done by then.
            BaseException: What a function raised; told once.
        """
        if not self._changes.wait_until(lambda: self._running == 0, timeout) and self._running:
            raise TimeoutError(f"a run has not ended after {timeout:g} s; it continues, wait again to see it end")
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def drain(self) -> None:
        """Wait until everything has been done; what a function raised is logged and told by `wait`."""
        self._changes.wait_until(lambda: self._running == 0)

    def _do(self, work: Callable[[], None]) -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # of a program that ends too: the thread serves other work
            error = raised
            logger.error("A run could not be finished in the background", exc_info=raised)
        finally:
            with self._changes.lock:
                if error is not None:
                    self._errors.append(error)
                self._running -= 1
                self._changes.tell()
