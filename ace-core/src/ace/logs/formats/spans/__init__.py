"""Reads the exports of tracing tools: OpenTelemetry spans of all conventions, and the tools' own formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ace.logs.formats.spans.exports import EXPORTS, ExportReader
from ace.logs.formats.spans.otel import SpansReader

if TYPE_CHECKING:
    from ace.logs.reader import LogReader

__all__ = ["READERS"]

READERS: Final[tuple[LogReader, ...]] = (SpansReader(), *map(ExportReader, EXPORTS))
