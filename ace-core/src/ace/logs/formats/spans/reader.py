"""Reads OpenTelemetry spans: exports in OTLP JSON, tables of spans, and MLflow's traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ace.logs.formats.spans.containers import Piece, is_of_agent, pieces_of
from ace.logs.formats.spans.otel import trace_of
from ace.logs.formats.spans.reading import runs_of_traces
from ace.logs.formats.spans.span import Trace
from ace.logs.head import LogHead
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["SpansReader"]

_DOCUMENTS: Final = frozenset({"resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "resourceMetrics"})


class SpansReader:
    """Reads the traces of applications that call models, tools and agents; one run for each trace id."""

    name = "spans"
    title = "OpenTelemetry spans (OTLP, Phoenix, MLflow)"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "System prompts and traces without a span of a model, a tool or an agent are skipped."

    def recognises(self, head: LogHead) -> float:
        """Return 0.9 for spans of agents; less for other spans, after which some of agents may come."""
        has_spans = False
        for piece in (piece for record in head.records for piece in pieces_of(record)):
            has_spans = has_spans or bool(piece.trace)
            if is_of_agent(piece.record):
                return 0.95
        if head.shape == "live":
            return 0.0
        if _DOCUMENTS & head.keys and not head.records:  # one object that is too large for the head
            return 0.9
        return 0.6 if has_spans or _DOCUMENTS & head.keys else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the runs in the order in which their last spans were written, and spans that cannot be assigned."""
        is_empty = True
        for found in runs_of_traces(source, pieces_of, _trace_of_agent):
            is_empty = False
            yield found
        if is_empty:
            yield source.problem("none of its spans is that of a model, a tool or an agent")


def _trace_of_agent(pieces: Sequence[Piece]) -> Trace | None:
    return trace_of(pieces) if any(is_of_agent(piece.record) for piece in pieces) else None
