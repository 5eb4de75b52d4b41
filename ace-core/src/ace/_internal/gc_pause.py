"""Pauses the garbage collector while many long-lived objects are created."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

__all__ = ["MANY_OBJECTS", "gc_paused"]

MANY_OBJECTS: Final = 10_000
"""The number of new objects from which they are hidden from the collector."""


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector while long-lived objects are created.

    Reading a large skillbook makes some hundred thousand objects, none of them garbage; looking for garbage among them
    would take as long as parsing, and once more when the collector is switched on again. So they are put among
    the old objects unseen, if they are many. If the collector was already switched off, or objects were frozen by other
    code, that stays so.

    Example:
        >>> with gc_paused():
        ...     gc.isenabled()
        False
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] >= MANY_OBJECTS and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
