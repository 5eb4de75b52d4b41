"""Reading a large book without the garbage collector walking it again and again."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_collection() -> Iterator[None]:
    """Keep the garbage collector still while objects are made that will stay.

    Reading a book makes some hundred thousand objects, none of them garbage; looking for garbage among them
    would take as long as parsing. Where somebody else has switched the collector off, it stays off.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
