"""Reads OpenTelemetry spans with the attributes of all dialects: OTLP JSON, tables of spans, and MLflow's traces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import fields_of, text_of
from ace.logs.formats.spans.assessments import Assessment, assessments_in
from ace.logs.formats.spans.containers import (
    Piece,
    attributes_of,
    event_name,
    first_of,
    is_of_agent,
    parent_id,
    pieces_of,
    span_id,
)
from ace.logs.formats.spans.cut_json import completed_json
from ace.logs.formats.spans.dialects import attribute_names
from ace.logs.formats.spans.reading import runs_of_traces
from ace.logs.formats.spans.span import Span, SpanKind, Trace, kind_of, nanoseconds
from ace.logs.formats.spans.values import ANSWERS, QUESTIONS, arguments_of, described, nested, result_of, steps_in
from ace.logs.head import LogHead
from ace.logs.outcomes import is_failed_output, number_of
from ace.logs.run import Problem, Run, Step
from ace.logs.source import Source

__all__ = ["SpansReader"]

_DOCUMENTS: Final = frozenset({"resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "resourceMetrics"})
_EVENT_ROLES: Final = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_EVALUATIONS: Final = ("gen_ai.evaluation.result", "gen_ai.evaluation")
_FAILED: Final = (2, "2", "STATUS_CODE_ERROR", "ERROR", "error", "Error")
_EMPTY: Final[tuple[Any, ...]] = (None, "", "{}", {})
"""Attributes that are there without a value; `{}` if the content has been switched off."""
_SENT_TOKENS: Final = ("input_tokens", "prompt_tokens", "input", "promptTokens", "inputTokens")
_WRITTEN_TOKENS: Final = ("output_tokens", "completion_tokens", "output", "completionTokens", "outputTokens")
_SESSIONS: Final = ("session_id", "sessionId", "mlflow.trace.session")


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
        for found in runs_of_traces(source, pieces_of, _trace_of):
            is_empty = False
            yield found
        if is_empty:
            yield source.problem("none of its spans is that of a model, a tool or an agent")


def _trace_of(pieces: Sequence[Piece]) -> Trace | None:
    """Return the trace of spans, log records and facts; None if none of its spans is that of a model, tool or agent.

    A span that was exported twice counts once.
    """
    if not any(is_of_agent(piece.record) for piece in pieces):
        return None
    logs: dict[str, list[Mapping[str, Any]]] = {}
    for piece in pieces:
        if piece.kind == "log":
            logs.setdefault(span_id(piece.record), []).append(piece.record)
    records = {span_id(piece.record): piece.record for piece in pieces if piece.kind == "span"}
    readers = [_SpanReader(record, logs.get(identity, ())) for identity, record in records.items()]
    about: dict[str, Any] = {}
    for piece in pieces:
        about |= piece.record if piece.kind == "about" else {}
    holders = (about, fields_of(about.get("trace_metadata")), fields_of(about.get("tags")))
    sessions = (*(first_of(holder, *_SESSIONS) for holder in holders), *(reader.session() for reader in readers))
    session = next(filter(None, sessions), None)
    services = sorted({piece.service for piece in pieces if piece.service})
    return Trace(
        id=text_of(first_of(about, "trace_id", "request_id")) or pieces[0].trace,
        spans=tuple(reader.span() for reader in readers),
        assessments=(*assessments_in(about.get("assessments")), *_SpanReader({}, logs.get("", ())).assessments()),
        rest={**({"session": text_of(session)} if session else {}), **({"services": services} if services else {})},
    )


class _SpanReader:
    """Reads one span; counts the values that were cut."""

    def __init__(self, record: Mapping[str, Any], logs: Iterable[Mapping[str, Any]]) -> None:
        self._record = record
        self._attributes = attributes_of(record)
        self._numbered = _numbered(self._attributes)
        self._cut: set[str] = set()
        self._events = list(self._named_events(logs))

    def _named_events(self, logs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the events of the span by their names, in whatever way they were recorded."""
        own = self._parsed(first_of(self._record, "events", "otel_events"))
        older = self._parsed(self._attributes.get("events"))  # of Logfire, in an attribute
        for events in (logs, own, older):
            for event in events if isinstance(events, list | tuple) else ():
                if isinstance(event, dict):
                    attributes = attributes_of(event) if "attributes" in event or "body" in event else event
                    yield event_name(event, attributes), attributes

    def session(self) -> Any:
        """Return the id of the conversation; None if the span has none."""
        return self._named("session")

    def span(self) -> Span:
        """Return what the span says about the run."""
        kind = self._kind()
        is_tool = kind == "tool"
        asked = self._value("arguments", "asked") if is_tool else self._value("asked")
        returned = self._value("result", "returned") if is_tool else self._value("text", "returned")
        inputs, outputs = ((), ()) if is_tool else (self._inputs(asked), self._outputs(returned))
        result = result_of(returned)
        error = self._error(kind)
        return Span(
            id=span_id(self._record),
            parent=parent_id(self._record),
            kind=kind,
            name=text_of(self._named("tool" if is_tool else "name")) or self._own_name() or kind,
            start=self._time("startTimeUnixNano", "start_time_unix_nano", "start_time", "start_timestamp"),
            end=self._time("endTimeUnixNano", "end_time_unix_nano", "end_time", "end_timestamp"),
            inputs=inputs,
            outputs=outputs,
            question=text_of(arguments_of(asked)) if is_tool else described(asked, QUESTIONS),
            answer=text_of(result) if is_tool else described(returned, ANSWERS),
            error=error,
            is_failed_result=is_tool and is_failed_output(result),
            call_id=text_of(self._named("call")),
            model=text_of(self._named("model")),
            input_tokens=self._tokens("input_tokens", _SENT_TOKENS),
            output_tokens=self._tokens("output_tokens", _WRITTEN_TOKENS),
            cost=number_of(self._named("cost")),
            assessments=tuple(self.assessments()),
            cut_values=len(self._cut),
        )

    def _own_name(self) -> str:
        return text_of(first_of(self._record, "name", "span_name"))

    def _time(self, *names: str) -> int:
        return nanoseconds(first_of(self._record, *names))

    def _kind(self) -> SpanKind:
        names = [self._attribute(name) for name in attribute_names("kind")]
        kinds = (kind_of(name) for name in (*names, self._record.get("span_kind")))
        for kind in kinds:
            if kind is not None and kind != "function":
                return kind
        # The name of an entity is that of whatever the span is, and proves no tool.
        if any(self._attribute(name) for name in attribute_names("arguments")) or self._attribute("gen_ai.tool.name"):
            return "tool"
        if self._named("history") is not None:
            return "agent"
        return "model" if not any(names) and self._named("said") is not None else "other"

    def _attribute(self, name: str) -> Any:
        """Return an attribute, also if its name is a path into objects, or if it is spread over numbered ones."""
        value = self._attributes.get(name)
        if value in _EMPTY and name in self._numbered:
            return nested(self._numbered[name])
        if value in _EMPTY and name.partition(".")[0] in self._attributes:
            value = self._attributes
            for part in name.split("."):
                value = fields_of(value).get(part)
        return None if value in _EMPTY else value

    def _named(self, *meanings: str) -> Any:
        names = attribute_names(*meanings)
        return next((value for name in names if (value := self._attribute(name)) is not None), None)

    def _value(self, *meanings: str) -> Any:
        return self._parsed(self._named(*meanings))

    def _parsed(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        document, was_cut = completed_json(value)
        if was_cut:
            self._cut.add(value)
        if document is None and value[:1] == value[-1:] == '"':  # MLflow and OpenLLMetry write texts as JSON, too
            document = fields_of(completed_json(f'{{"text": {value}}}')[0]).get("text")
        return value if document is None else document

    def _inputs(self, asked: Any) -> tuple[Step, ...]:
        """Return the messages in the attributes, or else those in the events or in the input of the span."""
        sent = self._value("sent")
        found = steps_in(sent, "user") or tuple(self._event_steps(is_input=True)) or steps_in(asked, "user")
        if found:
            return found
        if sent:
            return steps_in({"role": "user", "content": described(sent, QUESTIONS)}, "user")
        history = steps_in(self._value("history"), "user")
        return tuple(itertools.takewhile(lambda step: step.speaker != "agent", history))

    def _outputs(self, returned: Any) -> tuple[Step, ...]:
        said = self._value("said")
        found = _from_agent(said) or tuple(self._event_steps(is_input=False)) or self._spoken()
        found = found or steps_in(self._value("history"), "assistant") or steps_in(returned, "assistant")
        return found or (steps_in({"content": said}, "assistant") if isinstance(said, str) else ())

    def _spoken(self) -> tuple[Step, ...]:
        """Return the answer that is in two attributes, of which one has the text and one the calls."""
        text, calls = self._value("text"), self._value("calls")
        if text is None and calls is None:
            return ()
        message = {"role": "assistant", "content": text_of(text), "tool_calls": calls}
        return steps_in(message, "assistant")

    def _event_steps(self, *, is_input: bool) -> Iterator[Step]:
        which, meant = ("prompt", "input") if is_input else ("completion", "output")
        messages: list[Any] = []
        for name, fields in self._events:
            if name in _EVENT_ROLES and is_input:
                messages.append({**fields, "role": _EVENT_ROLES[name]})
            elif name == "gen_ai.choice" and not is_input:
                message = self._parsed(fields.get("message"))
                messages.append({"role": "assistant", **(message if isinstance(message, dict) else fields)})
            elif name == f"gen_ai.content.{which}":
                messages.append(self._parsed(fields.get(f"gen_ai.{which}")))
            elif name == _DETAILS:
                messages.append(self._parsed(fields.get(f"gen_ai.{meant}.messages")))
        yield from steps_in(messages, "user" if is_input else "assistant")

    def _error(self, kind: SpanKind) -> str:
        record, status = self._record, fields_of(self._record.get("status"))
        level = self._attribute("langfuse.observation.level")
        codes = (status.get("code"), status.get("status_code"), level, record.get("status"))
        flat = (record.get("status_code"), record.get("otel_status_code"))
        if not any(code in _FAILED for code in (*codes, *flat) if isinstance(code, int | str)):
            is_lost = (
                kind == "tool" and self._attribute("ai.toolCall.args") and not self._attribute("ai.toolCall.result")
            )
            return "it returned nothing" if is_lost else ""
        texts = [first_of(status, "message", "description"), first_of(record, "status_message", "otel_status_message")]
        texts += [self._attribute("langfuse.observation.status_message"), self._attribute("error.type")]
        for name, fields in (("exception", self._attributes), ("exception", record), *self._events):
            kind_name = text_of(first_of(fields, "exception.type", "exception_type")).rpartition(".")[2]
            message = text_of(first_of(fields, "exception.message", "exception_message"))
            if name == "exception" and (kind_name or message):
                texts.insert(0, ": ".join(filter(None, (kind_name, message))))
        error = next(filter(None, map(text_of, texts)), "it failed")
        return error.partition("Traceback (most recent call last)")[0].strip() or error

    def _tokens(self, meaning: str, names: Sequence[str]) -> int | None:
        count = number_of(self._named(meaning))
        if count is None:
            count = number_of(first_of(fields_of(self._value("usage")), *names))
        return None if count is None else int(count)

    def assessments(self) -> Iterator[Assessment]:
        """Yield what was said about the span, and about the run."""
        yield from assessments_in(self._parsed(self._named("assessments")))
        begin = "evaluation."
        older = {name[len(begin) :]: value for name, value in self._attributes.items() if name.startswith(begin)}
        yield from assessments_in([{"name": self._own_name(), **older}] if older else (), "machine")
        yield from assessments_in(self._parsed(first_of(self._record, "annotations", "assessments")))
        for name, fields in self._events:
            if name in _EVALUATIONS:
                said = {
                    name.removeprefix("gen_ai.evaluation.").removeprefix("score."): item
                    for name, item in fields.items()
                    if name.startswith("gen_ai.evaluation.")
                }
                yield from assessments_in([said], "machine")


def _from_agent(value: object) -> tuple[Step, ...]:
    """Return the steps of the agent, and of tools that its provider ran for it."""
    return tuple(step for step in steps_in(value, "assistant") if step.speaker in ("agent", "tool"))


def _numbered(attributes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the attributes that are spread over names such as `gen_ai.prompt.0.role`, by what is before the number."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in attributes.items():
        parts = name.split(".")
        at = next((number for number, part in enumerate(parts) if part.isdecimal()), 0)
        if at:
            found.setdefault(".".join(parts[:at]), {})[".".join(parts[at:])] = value
    return found
