"""Ctrl-C at every moment of an action, in programs that tests run with Python's own signal handler."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from ace.pipeline.threads import _note_collection, is_collecting, note_collections


def interrupted_at(
    moment: int, action: Callable[[], object], *, counts: Callable[[FrameType], bool] | None = None
) -> bool:
    """Do something, and press Ctrl-C when the main thread makes its nth call.

    Args:
        moment: The number of the call, from 1.
        action: What is done.
        counts: Which calls count, by the frame that is called or calls native code; by default all.

    Returns:
        Whether it was interrupted; otherwise it made fewer calls.
    """
    count, stopped = 0, False
    note_collections()

    def is_lost_by_python(frame: FrameType) -> bool:
        # Where the engine does not defer Ctrl-C, Python itself only prints what is raised in a garbage collection.
        is_deferred = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        return not is_deferred and (is_collecting() or frame.f_code is _note_collection.__code__)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event in ("call", "c_return") and (counts is None or counts(frame)) and not is_lost_by_python(frame):
            count += 1
            if count == moment:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(profile)
    try:
        action()
        if count >= moment:
            # Ends with the interrupt that the engine has deferred to the end of a collection. Python may notice it only
            # after the next call, so each is short.
            for _ in range(6_000):
                time.sleep(0.01)
    except KeyboardInterrupt:
        stopped = True
    finally:
        sys.setprofile(None)
    assert stopped or count < moment, "Ctrl-C was lost"
    return stopped


def is_inside(frame: FrameType | None, folder: str) -> bool:
    """Return whether a frame, or one that called it, runs code of a folder."""
    while frame is not None and not frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    return frame is not None
