"""How Ctrl-C and SIGTERM end a command: the first one cleans up, one more ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

__all__ = ["EXIT_CODE", "heeded_signals", "run_heeding_signals"]

EXIT_CODE = 130
"""The exit code of a command that a signal has ended."""


def heeded_signals() -> list[signal.Signals]:
    """Return the signals that end a command. A shell starts background jobs with Ctrl-C ignored, which is respected."""
    return [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]


def run_heeding_signals(command: Callable[[], int]) -> int:
    """Run a command in which the first signal raises `KeyboardInterrupt`, and one more ends the process.

    Args:
        command: Returns its exit code, which is `EXIT_CODE` if a signal has ended it.

    Returns:
        The exit code. After `EXIT_CODE` the process has to end; signals are ignored from then on, so that none
        changes how.
    """
    heeded = heeded_signals()
    is_ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_ending:
            os.write(2, b"ace: stopped at once\n")
            os._exit(EXIT_CODE)
        is_ending = True
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in heeded}
    code = None
    try:
        code = command()
    finally:
        for each, old in before.items():
            signal.signal(each, signal.SIG_IGN if code == EXIT_CODE else old)
    return code
