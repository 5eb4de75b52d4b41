"""Pauses the garbage collector while many long-lived objects are created."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["gc_paused"]


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector while long-lived objects are created.

    Reading a large skillbook makes some hundred thousand objects, none of them garbage; looking for garbage among them
    time and again would take as long as parsing. If the collector was already switched off, it stays so.

    Example:
        >>> with gc_paused():
        ...     gc.isenabled()
        False
    """
    # The new objects are not put among the old ones with `gc.freeze` and `gc.unfreeze`: these also move the garbage of
    # the rest of the program there, and start the count to the next collection anew. A service that reads its skillbook
    # again and again would never collect anything.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
