"""Collects what belongs to one trace from a source, in whatever order it was written, and yields the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ace.logs.formats.spans.containers import Piece
from ace.logs.formats.spans.runs import run_of
from ace.logs.formats.spans.span import Trace
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["runs_of_traces"]

_NO_TEXTS: Final = (
    "the spans of the trace {trace} have no texts of messages or tools; let your application record them, such as "
    "with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
)
_NO_MODELS: Final = (
    "the task of the trace {trace} is unknown, because only its agents and tools were recorded; record the calls of "
    "the model too, with the instrumentation library for its client, such as opentelemetry-instrumentation-genai-openai"
)
_CALLS: Final = frozenset({"model", "tool", "retriever"})


def runs_of_traces(
    source: Source, pieces_of: Callable[[object], Iterable[Piece]], trace_of: Callable[[Sequence[Piece]], Trace | None]
) -> Iterator[Run | Problem]:
    """Yield one run for each trace in a source, and what cannot be read.

    A trace is read as soon as its last piece was found, so that only those are in memory that are not complete. One
    that says nothing and may only record how an agent was built is skipped, unless the source has nothing else.

    Args:
        source: What is read, twice if it has many values.
        pieces_of: Yields the pieces of traces in a value of the source.
        trace_of: Returns the trace that consists of pieces; None if it is not that of an agent.
    """
    silent = ""
    is_empty = True
    for found in _read_traces(source, pieces_of, trace_of):
        if isinstance(found, Trace):
            silent = silent or found.id
        else:
            is_empty = False
            yield found
    if is_empty and silent:
        yield source.problem(_NO_TEXTS.format(trace=silent))


def _read_traces(
    source: Source, pieces_of: Callable[[object], Iterable[Piece]], trace_of: Callable[[Sequence[Piece]], Trace | None]
) -> Iterator[Run | Problem | Trace]:
    is_whole = source.shape in ("object", "live")  # one value, which would only be parsed twice
    last = {} if is_whole else _last_records(source, pieces_of)
    waiting: dict[str, list[Piece]] = {}
    for number, record in enumerate(source.records()):
        found: dict[str, None] = {}
        for piece in pieces_of(record.value):
            if piece.kind == "problem":
                yield source.problem(piece.reason, record.line)
            elif piece.trace:
                waiting.setdefault(piece.trace, []).append(piece)
                found[piece.trace] = None
        for trace in found:
            if last.get(trace) == number:
                yield from _read(source, waiting.pop(trace), trace_of)
    for pieces in waiting.values():
        yield from _read(source, pieces, trace_of)


def _last_records(source: Source, pieces_of: Callable[[object], Iterable[Piece]]) -> dict[str, int]:
    last = {
        piece.trace: number
        for number, record in enumerate(source.records())
        for piece in pieces_of(record.value)
        if piece.trace
    }
    source.problems.clear()  # they are found again
    return last


def _read(
    source: Source, pieces: Sequence[Piece], trace_of: Callable[[Sequence[Piece]], Trace | None]
) -> Iterator[Run | Problem | Trace]:
    """Yield the run or problem that a trace is; the trace itself if it may not record a run."""
    trace = trace_of(pieces)
    run = run_of(trace) if trace and trace.spans else None
    if not trace or not run:
        return
    kinds = {span.kind for span in trace.spans}
    has_texts = any(step.content for step in run.steps)
    if run.task or run.answer or (has_texts and "model" in kinds):
        yield run
    elif has_texts and kinds != {"other"}:
        yield source.problem(_NO_MODELS.format(trace=trace.id))
    elif kinds & _CALLS:
        yield source.problem(_NO_TEXTS.format(trace=trace.id))
    else:
        yield trace
