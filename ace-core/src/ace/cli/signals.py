"""How Ctrl-C and SIGTERM end a command: after the first one it cleans up, the second one ends the process immediately.

Who does what on which thread:

- Python runs signal handlers on the main thread, between two of its own instructions. While that thread is inside
  native code, such as a model that is being loaded, no handler runs.
- So a second thread, the watcher, is told of each signal by the interpreter itself. When a second signal has come and
  no handler ends the process within a second, the watcher does. It also ends it at the third signal.
- While a native module is being imported, the handler does run, if that module imports others, but must not raise:
  modules that do not check for an error there crash. It then asks the watcher to deliver the signal again, as it does
  if it has raised inside a finalizer or a callback of a weak reference, from which no exception reaches the caller.
- However a process is forced to end, it goes through `end_process`, which runs the actions of `on_forced_exit` first:
  `finally` blocks do not run any more then.
- `run_interruptibly` does work on a thread of its own, so that no signal lands in the middle of it: the first signal
  asks the work to end.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ExtensionFileLoader
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

_RETRY_DELAY = 0.01
"""The time after which a signal that could not end the command is delivered again, in seconds."""

_DELIVER_AGAIN = 0
"""What the handler writes to the watcher to have a signal delivered again; no signal has this number."""

_NATIVE_IMPORTS = frozenset((ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__))

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
    return [signum for signum in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(signum) is not signal.SIG_IGN]


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
    before = {signum: signal.getsignal(signum) for signum in heeded}
    interrupter = _Interrupter()
    code = None
    try:  # a signal may come as soon as the first handler is there, and starting a thread takes time
        for signum in heeded:
            signal.signal(signum, interrupter.handle)
        interrupter.watcher = _Watcher(frozenset(heeded))
        sys.unraisablehook = interrupter.repeat_if_lost
        code = command()
        interrupter.is_over = code != EXIT_CODE
    except BaseException as error:
        # So early or so late that the command could not say so. An import that is interrupted may raise another error.
        if not (interrupter.is_ending or isinstance(error, KeyboardInterrupt)):
            raise
        os.write(2, b"ace: interrupted\n")
        code = EXIT_CODE
    finally:
        sys.unraisablehook = interrupter.hook_before
        if code == EXIT_CODE:
            # What runs at the exit may wait, as for threads that are in the middle of a call.
            atexit.register(_ignore, heeded)
        else:
            if interrupter.watcher is not None:
                interrupter.watcher.stop()
            for signum, old in before.items():
                signal.signal(signum, old)
    return code


class _Interrupter:
    """Raises `KeyboardInterrupt` at the first signal, and ends the process at the second one."""

    def __init__(self) -> None:
        self.is_ending = self.is_over = False
        self.watcher: _Watcher | None = None
        self.hook_before = sys.unraisablehook

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, on the main thread."""
        if self.is_over:
            return
        if self.is_ending:
            os.write(2, b"ace: stopped immediately\n")
            end_process()
        if self.watcher is not None and _imports_native_module(frame):
            self.watcher.deliver_again()
            return
        self.is_ending = True
        raise KeyboardInterrupt

    def repeat_if_lost(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Have the signal delivered again if what `handle` raised cannot reach the command."""
        is_lost = self.is_ending and isinstance(unraisable.exc_value, KeyboardInterrupt)
        if self.watcher is None or not is_lost:
            self.hook_before(unraisable)
        else:
            self.is_ending = False
            self.watcher.deliver_again()


def _ignore(signals: Sequence[signal.Signals]) -> None:
    for signum in signals:
        signal.signal(signum, signal.SIG_IGN)


def _imports_native_module(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _NATIVE_IMPORTS:
            return True
        frame = frame.f_back
    return False


class _Watcher:
    """A thread that ends the process at the second signal if the main thread does not.

    It reads from a pipe the number of each signal, which the interpreter writes, and `_DELIVER_AGAIN`, which the
    handler writes. The lock makes sure that it delivers nothing again once it is stopped: other handlers follow then.
    """

    def __init__(self, heeded: frozenset[int]) -> None:
        self._heeded = heeded
        self._main_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        _handler_ends_process.clear()
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reading,), name="ace-signals", daemon=True).start()

    def deliver_again(self) -> None:
        """Deliver the signal that is being handled once more, soon."""
        os.write(self._writing, bytes([_DELIVER_AGAIN]))

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._stopped.set()
        signal.set_wakeup_fd(self._before)
        os.close(self._writing)  # the thread reads to the end, and ends

    def _watch(self, reading: int) -> None:
        received = 0
        last = signal.SIGINT
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while numbers := pipe.read(64):
                for number in numbers:
                    if number in self._heeded:
                        last = signal.Signals(number)
                        received += 1
                if received > 2 or (received == 2 and not _handler_ends_process.wait(_GRACE)):
                    end_process()
                if _DELIVER_AGAIN in numbers:
                    received -= 1  # the interpreter is about to write it again
                    self._deliver(last)

    def _deliver(self, number: signal.Signals) -> None:
        self._stopped.wait(_RETRY_DELAY)
        with self._lock:
            if not self._stopped.is_set():
                signal.pthread_kill(self._main_thread, number)  # a real signal ends a wait of the main thread


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

    before = {signum: signal.signal(signum, handle) for signum in heeded_signals()}
    try:
        thread = threading.Thread(target=do_work, name="ace-run", daemon=True)
        thread.start()
        while not over.wait(0.2):
            pass
        thread.join()
    finally:
        if received == 0:
            for signum, old in before.items():
                signal.signal(signum, old)
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
