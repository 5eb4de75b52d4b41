"""The exports of tracing tools that have a format of their own: an entry for each, and one reader for all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ace.logs.building import text_of
from ace.logs.formats.spans.assessments import assessments_in
from ace.logs.formats.spans.containers import Piece
from ace.logs.formats.spans.reading import runs_of_traces
from ace.logs.formats.spans.span import Span, SpanKind, Trace, kind_of, nanoseconds
from ace.logs.formats.spans.values import (
    ANSWERS,
    QUESTIONS,
    arguments_of,
    described,
    messages_in,
    parsed,
    result_of,
    steps_in,
)
from ace.logs.head import LogHead
from ace.logs.mapping import value_at
from ace.logs.messages import role_of
from ace.logs.outcomes import is_failed_output, number_of
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["EXPORTS", "Export", "ExportReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """How the records of a tool are read as spans: a JMESPath expression for each field of a record."""

    name: str
    title: str
    keys: tuple[frozenset[str], ...]
    """A record is of this format if it has all keys of one of these sets."""
    note: str = ""
    id: str = "id"
    trace: str = "trace_id"
    """The id of the trace; without one, it is that of the record around, or the record's own."""
    parent: str = "parent_id"
    children: str = ""
    """Records inside a record."""
    kind: str = ""
    label: str = "name"
    input: str = "input"
    output: str = "output"
    error: str = "error"
    """What went wrong, if it is not empty."""
    model: str = ""
    input_tokens: str = ""
    output_tokens: str = ""
    cost: str = ""
    start: str = ""
    end: str = ""
    assessments: str = ""
    truth: str = ""
    session: str = ""


def _keys(*sets: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names.split()) for names in sets)


_LANGCHAIN: Final = "outputs.generations[0][0].message.kwargs.usage_metadata"
_ESCAPED: Final = "outputs.generations[0][0].message.__lc_escaped__.kwargs.usage_metadata"
EXPORTS: Final = (
    Export(
        name="langfuse",
        title="Langfuse traces and observations",
        keys=_keys("id observations input", "trace observations", "traceId parentObservationId", "htmlPath input"),
        id="id || trace.id",
        trace="traceId",
        parent="parentObservationId",
        children="observations",
        kind="type",
        label="name || trace.name",
        input="input || trace.input",
        output="output || trace.output",
        error="level == 'ERROR' && (statusMessage || 'it failed')",
        model="model || providedModelName",
        input_tokens="usageDetails.input || usage.input || usage.promptTokens || inputUsage",
        output_tokens="usageDetails.output || usage.output || usage.completionTokens || outputUsage",
        cost="calculatedTotalCost || totalCost || costDetails.total",
        start="startTime || timestamp || trace.timestamp",
        end="endTime",
        assessments="scores || trace.scores",
        session="sessionId || trace.sessionId",
    ),
    Export(
        name="langsmith",
        title="LangSmith runs",
        keys=_keys("run_type trace_id", "run_type inputs", "run_type child_runs"),
        parent="parent_run_id",
        children="child_runs",
        kind="run_type",
        input="inputs",
        output="outputs",
        error="error || (status == 'error' && 'it failed')",
        model="extra.metadata.ls_model_name || extra.invocation_params.model",
        input_tokens=f"prompt_tokens || {_LANGCHAIN}.input_tokens || {_ESCAPED}.input_tokens",
        output_tokens=f"completion_tokens || {_LANGCHAIN}.output_tokens || {_ESCAPED}.output_tokens",
        cost="total_cost",
        start="start_time",
        end="end_time",
        assessments="feedback_stats",
        truth="reference_outputs || reference_example.outputs",
        session="extra.metadata.thread_id || extra.metadata.session_id || extra.metadata.conversation_id",
    ),
    Export(
        name="weave",
        title="Weave calls",
        keys=_keys("op_name trace_id", "op_name inputs"),
        note="An evaluation is one run, since all its examples have one trace id. Not checked against a real file.",
        kind="attributes.weave.kind || kind || 'function'",
        label="op_name",
        input="inputs",
        error="exception || (summary.weave.status == 'error' && 'it failed')",
        model="inputs.model",
        input_tokens="summary.usage.*.[prompt_tokens || input_tokens][] | [0]",
        output_tokens="summary.usage.*.[completion_tokens || output_tokens][] | [0]",
        start="started_at",
        end="ended_at",
        assessments="feedback || summary.weave.feedback",
        session="attributes.thread_id || thread_id",
    ),
    Export(
        name="braintrust",
        title="Braintrust logs and experiments",
        keys=_keys("root_span_id span_id"),
        id="span_id",
        trace="root_span_id",
        parent="span_parents[0]",
        kind="span_attributes.type",
        label="span_attributes.name",
        model="metadata.model",
        input_tokens="metrics.prompt_tokens",
        output_tokens="metrics.completion_tokens",
        cost="metrics.estimated_cost",
        start="metrics.start || created",
        end="metrics.end",
        assessments="scores",
        truth="expected",
        session="metadata.session_id || metadata.thread_id",
    ),
    Export(
        name="litellm",
        title="LiteLLM logs",
        keys=_keys("call_type messages", "call_type model_group", "call_type response"),
        parent="''",
        kind="'llm'",
        label="call_type",
        input="messages || input",
        output="response",
        error="status == 'failure' && (error_str || error_information.error_message || 'it failed')",
        model="model",
        input_tokens="prompt_tokens",
        output_tokens="completion_tokens",
        cost="response_cost",
        start="startTime",
        end="endTime",
        session="metadata.session_id || session_id",
    ),
    Export(
        name="helicone",
        title="Helicone requests",
        keys=_keys("request_body response_body", "requestBody responseBody"),
        note="Requests of one session are one run. Not checked against a real file.",
        id="request_id || requestId || id",
        trace='(request_properties || properties)."Helicone-Session-Id"',
        parent="''",
        kind="'llm'",
        label="'llm'",
        input="request_body || requestBody",
        output="response_body || responseBody",
        error="(response_body || responseBody).error",
        model="request_model || model || response_model",
        input_tokens="prompt_tokens",
        output_tokens="completion_tokens",
        cost="cost || costUSD",
        start="request_created_at || createdAt",
        end="response_created_at",
        assessments="scores",
        truth="''",
        session='(request_properties || properties)."Helicone-Session-Id"',
    ),
)
_ENVELOPES: Final = ("data", "runs", "traces", "calls", "events", "rows", "logs", "observations")
_OP: Final = re.compile(r"weave:///.*/op/(?P<name>[^:/]+):")
_DEEPEST: Final = 200


class ExportReader:
    """Reads the traces that one tool exports; one run for each trace id.

    Args:
        export: How its records are read.
    """

    places: Sequence[str] = ()
    side_files: Sequence[str] = ()

    def __init__(self, export: Export) -> None:
        self._export = export
        self.name = export.name
        self.title = export.title
        self.note = export.note

    def recognises(self, head: LogHead) -> float:
        """Return 0.96 if most of the first records, or of those in an envelope, have the keys of the format.

        These keys are unmistakable, while what a framework writes is also inside of the records of such tools.
        """
        if not head.records:
            return 0.96 if any(keys <= head.keys for keys in self._export.keys) else 0.0
        found = [bool(self._records(record)) for record in head.records]
        return 0.96 if sum(found) * 2 > len(found) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the runs in the order in which their last records were written."""
        yield from runs_of_traces(source, self._pieces, self._trace)

    def _records(self, value: object) -> list[Mapping[str, Any]]:
        """Return the records in a value: itself, or those in its envelopes."""
        if isinstance(value, list):
            return [record for item in value for record in self._records(item)]
        if not isinstance(value, dict):
            return []
        if any(keys <= value.keys() for keys in self._export.keys):
            return [value]
        inner = (value[name] for name in _ENVELOPES if isinstance(value.get(name), list))
        return next((found for items in inner if (found := self._records(items))), [])

    def _pieces(self, value: object) -> Iterator[Piece]:
        for record in self._records(value):
            yield from self._with_children(record, "", "", 0)

    def _with_children(self, record: Mapping[str, Any], trace: str, parent: str, depth: int) -> Iterator[Piece]:
        """Yield a record and those inside it, which need not repeat the id of the trace."""
        identity = self._text("id", record)
        trace = self._text("trace", record) or trace or identity
        yield Piece(trace, "span", record, parent=self._text("parent", record) or parent)
        children = value_at(self._export.children, record)
        for child in children if isinstance(children, list) and depth < _DEEPEST else ():
            if isinstance(child, dict):
                yield from self._with_children(child, trace, identity, depth + 1)

    def _text(self, field: str, record: Mapping[str, Any]) -> str:
        return text_of(value_at(getattr(self._export, field), record))

    def _trace(self, pieces: Sequence[Piece]) -> Trace:
        by_id = {self._text("id", piece.record) or str(number): piece for number, piece in enumerate(pieces)}
        parents = {piece.parent for piece in by_id.values()}
        roots = [piece.record for piece in by_id.values() if piece.parent not in by_id]
        spans = []
        for identity, piece in by_id.items():
            is_called = identity not in parents and piece.parent in by_id
            spans.append(self._span(identity, piece, is_called=is_called))
        truths = (described(parsed(value_at(self._export.truth, record)), ANSWERS) for record in roots)
        sessions = (self._text("session", piece.record) for piece in pieces)
        session = next(filter(None, sessions), "")
        return Trace(
            id=pieces[0].trace,
            spans=tuple(spans),
            truth=next(filter(None, truths), ""),
            rest={"session": session} if session else {},
        )

    def _span(self, identity: str, piece: Piece, *, is_called: bool) -> Span:
        record, export = piece.record, self._export
        asked, returned = (parsed(value_at(expression, record)) for expression in (export.input, export.output))
        kind = _kind(value_at(export.kind, record), asked, returned, is_called=is_called)
        is_tool = kind == "tool"
        result = result_of(returned)
        label = self._text("label", record)
        op = _OP.match(label)
        return Span(
            id=identity,
            parent=piece.parent,
            kind=kind,
            name=op["name"] if op else label or kind,
            start=nanoseconds(value_at(export.start, record)),
            end=nanoseconds(value_at(export.end, record)),
            inputs=() if is_tool else steps_in(asked, "user"),
            outputs=() if is_tool else steps_in(returned, "assistant"),
            question=text_of(arguments_of(asked)) if is_tool else described(asked, QUESTIONS),
            answer=text_of(result) if is_tool else described(returned, ANSWERS),
            error=_error_text(value_at(export.error, record)),
            is_failed_result=is_tool and is_failed_output(result),
            model=self._text("model", record),
            input_tokens=_count(value_at(export.input_tokens, record)),
            output_tokens=_count(value_at(export.output_tokens, record)),
            cost=number_of(value_at(export.cost, record)),
            assessments=tuple(assessments_in(parsed(value_at(export.assessments, record)))),
        )


def _kind(name: object, asked: object, returned: object, *, is_called: bool) -> SpanKind:
    """Return the kind of a record; a function that got and gave messages is a model, and one without others a tool."""
    kind = kind_of(name) or "other"
    if kind != "function":
        return kind
    speakers = [{role_of(message) for message in messages_in(value, "")} for value in (asked, returned)]
    if is_called and "user" in speakers[0] and "assistant" in speakers[1]:
        return "model"
    return "tool" if is_called else "other"


def _error_text(error: object) -> str:
    if isinstance(error, dict):
        error = error.get("message", error)
    text = text_of(error or None)
    return text.partition("Traceback (most recent call last)")[0].strip() or text


def _count(value: object) -> int | None:
    number = number_of(value)
    return None if number is None else int(number)
