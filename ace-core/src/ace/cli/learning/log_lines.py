"""Shows what the library logs as lines of the command line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ace.calls.secrets import redact
from ace.cli.console import note, visible

__all__ = ["warnings_shown"]

_LONGEST = 500
_TOLD_BY_THE_REPORT = (
    "ace.runners.failures",
    "ace.runners.run_limits.stopped",
    "ace.steps.tag",
    "ace.skillbook.book",
)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.name in _TOLD_BY_THE_REPORT:
            return
        try:
            message = record.getMessage()
        except Exception:  # a plugin's arguments do not fit its message; a log line must not end the run
            message = str(record.msg)
        text = " ".join(redact(message).split())
        note(f"ace: {record.levelname.lower()}: {visible(text[:_LONGEST])}")


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings and errors of `ace` on standard error while the block runs, each as one line."""
    handler = _Notes(logging.WARNING)
    logger = logging.getLogger("ace")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)
