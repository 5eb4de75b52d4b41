"""`LoadTracesStep`: reads recorded traces from a JSONL file."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from ace.calls.sample_context import needed
from ace.context import ACEStepContext

__all__ = ["LoadTracesStep"]

logger = logging.getLogger(__name__)


class LoadTracesStep:
    """Reads the JSONL file that the sample names into a list of dicts.

    Blank lines are skipped. So are lines that are not JSON objects: a warning gives their number, which is also in
    `metadata["skipped_lines"]`. If the file is missing or empty, the list is empty.
    """

    requires = frozenset({"sample"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the list to the context."""
        path = Path(needed(ctx.sample, "sample", self))
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            logger.warning("No such file: %s; no traces are read", path)
            data = b""
        traces, skipped = _read_lines(data)
        if skipped:
            logger.warning("%s: %d bad %s skipped", path, skipped, "line was" if skipped == 1 else "lines were")
        return ctx.replace(trace=traces, metadata={**ctx.metadata, "skipped_lines": skipped})


def _read_lines(data: bytes) -> tuple[list[dict[str, Any]], int]:
    traces: list[dict[str, Any]] = []
    skipped = 0
    # Only a line feed ends a line of JSONL; str.splitlines would also split at U+2028 inside a string.
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            traces.append(record)
        else:
            skipped += 1
    return traces, skipped
