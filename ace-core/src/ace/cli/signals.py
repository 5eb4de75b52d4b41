"""How Ctrl-C and SIGTERM end a command: after the first one it cleans up, the second one ends the process immediately.

Who does what on which thread:

- Python runs signal handlers on the main thread, between two of its own instructions. While that thread is inside
  native code, such as a model that is being loaded, no handler runs.
- So a second thread, the watcher, is told of each signal by the interpreter itself. When a second signal has come and
  no handler ends the process within a second, the watcher does. It also ends it at the third signal.
- However a process is forced to end, it goes through `end_process`, which runs the actions of `on_forced_exit` first:
  `finally` blocks do not run any more then.
- `run_interruptibly` does work on a thread of its own, so that no signal lands in the middle of it: the first signal
  asks the work to end.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn, TypeVar

__all__ = [
    "EXIT_CODE",
    "end_process",
    "ending_process",
    "heeded_signals",
    "on_forced_exit",
    "run_heeding_signals",
    "run_interruptibly",
]

EXIT_CODE = 130
"""The exit code of a command that was ended by a signal."""

_GRACE = 1.0
"""The time that a handler has after the second signal before the watcher ends the process, in seconds."""

_actions: list[Callable[[], None]] = []
_handler_ends_process = threading.Event()


@contextmanager
def on_forced_exit(action: Callable[[], None]) -> Iterator[None]:
    """Register an action that is run if the process is forced to end while the block runs.

    Args:
        action: What is done. It may be called on any thread, at any moment, with any lock held: it must neither take
            one nor wait, so it uses functions of `os` rather than streams.
    """
    _actions.append(action)
    try:
        yield
    finally:
        _actions.remove(action)


def end_process() -> NoReturn:
    """End the process without waiting for any thread, after running the actions of `on_forced_exit`, newest first."""
    for action in reversed(_actions):
        with suppress(Exception):  # one that fails must not keep the process alive, nor the others from being done
            action()
    os._exit(EXIT_CODE)


def ending_process() -> None:
    """Record that a handler is ending the process, so that the watcher does not."""
    _handler_ends_process.set()


def heeded_signals() -> list[signal.Signals]:
    """Return the signals that end a command. A shell starts background jobs with Ctrl-C ignored, which is respected."""
    return [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]


def run_heeding_signals(command: Callable[[], int]) -> int:
    """Run a command in which the first signal raises `KeyboardInterrupt`, and one more ends the process.

    Args:
        command: Returns its exit code, which is `EXIT_CODE` if a signal has ended it.

    Returns:
        The exit code. After `EXIT_CODE` the process has to end; one more signal ends it at once, until the last
        moment, when signals are ignored so that none changes the exit code.
    """
    if threading.current_thread() is not threading.main_thread():
        return command()  # an application runs it, and handles signals itself
    heeded = heeded_signals()
    is_ending = is_over = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_over:
            return
        if is_ending:
            os.write(2, b"ace: stopped immediately\n")
            end_process()
        is_ending = True
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in heeded}
    stop_watching: Callable[[], None] | None = None
    code = None
    try:  # a signal may come as soon as the first handler is there, and starting a thread takes time
        for each in heeded:
            signal.signal(each, end)
        stop_watching = _watcher_started(frozenset(heeded))
        code = command()
        is_over = code != EXIT_CODE
    except BaseException as error:
        # So early or so late that the command could not say so. An import that is interrupted may raise another error.
        if not (is_ending or isinstance(error, KeyboardInterrupt)):
            raise
        os.write(2, b"ace: interrupted\n")
        code = EXIT_CODE
    finally:
        if code == EXIT_CODE:
            # What runs at the exit may wait, as for threads that are in the middle of a call.
            atexit.register(_ignore, heeded)
        else:
            if stop_watching is not None:
                stop_watching()
            for each, old in before.items():
                signal.signal(each, old)
    return code


def _ignore(signals: Sequence[signal.Signals]) -> None:
    for each in signals:
        signal.signal(each, signal.SIG_IGN)


def _watcher_started(heeded: frozenset[int]) -> Callable[[], None]:
    """Start a thread that ends the process at the second signal if the main thread does not.

    Returns:
        Stops the thread.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _handler_ends_process.clear()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading, heeded), name="ace-signals", daemon=True).start()

    def stop() -> None:
        signal.set_wakeup_fd(before)
        os.close(writing)  # the watcher reads to the end, and ends

    return stop


def _watch(reading: int, heeded: frozenset[int]) -> None:
    received = 0
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while numbers := pipe.read(64):
            received += sum(number in heeded for number in numbers)
            if received > 2 or (received == 2 and not _handler_ends_process.wait(_GRACE)):
                end_process()


Result = TypeVar("Result")

_LONGEST_FAREWELL = 10.0
"""The time for actions before the process is ended immediately, in seconds."""


def run_interruptibly(
    work: Callable[[], Result], *, on_first: Callable[[], None], on_second: Callable[[], None]
) -> Result:
    """Do work in a separate thread, while the current one, which must be the main thread, waits for signals.

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
