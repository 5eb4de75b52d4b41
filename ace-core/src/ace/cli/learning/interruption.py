"""Runs something that Ctrl-C and SIGTERM can end: once softly, twice at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, TypeVar

from ace.cli.signals import end_process, ending_process, heeded_signals

__all__ = ["run_interruptibly"]

Result = TypeVar("Result")

_LONGEST_FAREWELL = 10.0
"""Seconds that are given to what is done before the process ends at once."""


def run_interruptibly(
    work: Callable[[], Result], *, on_first: Callable[[], None], on_second: Callable[[], None]
) -> Result:
    """Do work in a thread of its own, while this one, which must be the main one, waits for signals.

    So no signal ever lands in the middle of the work.

    Args:
        work: What is done.
        on_first: Called at the first signal; it asks the work to end, which is then waited for.
        on_second: Called at the second signal, on another thread; the process ends after it, whatever the work is
            doing. The main thread may be in the middle of anything then, such as writing to standard error. A third
            signal ends the process without waiting for it.

    Returns:
        What the work returns; what it raises is raised. After a first signal, one more ends the process from then on.
    """
    outcome: list[tuple[Result | None, BaseException | None]] = []
    over = threading.Event()

    def do_work() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            over.set()

    received = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1:
            on_first()
        elif received == 2:
            ending_process()
            _end_at_once(on_second)
        else:
            end_process()

    before = {each: signal.signal(each, handle) for each in heeded_signals()}
    try:
        thread = threading.Thread(target=do_work, name="ace-run", daemon=True)
        thread.start()
        while not over.wait(0.2):
            pass
        thread.join()
    finally:
        if received == 0:
            for each, old in before.items():
                signal.signal(each, old)
    [(result, error)] = outcome
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # None only where an error is


def _end_at_once(farewell: Callable[[], None]) -> NoReturn:
    """End the process without waiting for any thread; what is said before may not hold it up for long."""
    last = threading.Thread(target=farewell, daemon=True)
    last.start()
    last.join(_LONGEST_FAREWELL)
    end_process()
