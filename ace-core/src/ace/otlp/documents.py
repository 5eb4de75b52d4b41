"""Finds spans, and the log records that belong to them, in JSON documents, and groups them by trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ace._internal.arguments import checked_arguments
from ace._internal.json_fields import Record, list_in, mapping_in, text_in, trace_head
from ace.otlp.spans import attributes_of, completed_json, is_of_agent
from ace.protocols.trace_converters import TraceConversionError

__all__ = ["SpanRecords", "parts_of", "recognise", "records_in", "span_records"]

# Protobuf's own JSON and some exporters write snake_case.
_RESOURCES: Final = {"spans": ("resourceSpans", "resource_spans"), "logs": ("resourceLogs", "resource_logs")}
_SCOPES: Final = {
    "spans": ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"),
    "logs": ("scopeLogs", "scope_logs"),
}
_RECORDS: Final = {"spans": ("spans",), "logs": ("logRecords", "log_records")}
_DOCUMENT: Final = re.compile(rb'\A\s*+(?:\[\s*+)?\{\s*+"resource_?(spans|logs|metrics)"\s*:', re.IGNORECASE)
_SPAN: Final = re.compile(rb'"span_?id"\s*:', re.IGNORECASE)
_NO_ID: Final = re.compile(r"0*")


@dataclass
class SpanRecords:
    """The spans and log records of one trace, as they are in the export."""

    spans: list[Record] = field(default_factory=list)
    logs: list[Record] = field(default_factory=list)
    services: list[str] = field(default_factory=list)
    """The names of the services that sent them."""


def recognise(record: object) -> float:
    """Return the probability that an object, or the beginning of a file, is an export of spans, from 0 to 1.

    An object must have a span of a model, a tool or an agent; of a file, these may be behind the beginning.

    Args:
        record: Any object; for a file, its first bytes.

    Example:
        >>> recognise(b'{"resourceSpans": [{"reso'), recognise({"resourceSpans": []}), recognise({"task": "2+2?"})
        (0.9, 0.0, 0.0)
    """
    head = trace_head(record, suffixes=())
    if head is not None:
        return 0.9 if _is_head(head) else 0.0
    if not all(map(_is_export, record if isinstance(record, list) else [record])):
        return 0.0
    return 0.9 if any(isinstance(span, Mapping) and is_of_agent(span) for _, _, span in _records_in(record)) else 0.0


def parts_of(value: object) -> list[tuple[str | None, object]]:
    """Return the parts of traces in a line or a document of a file, each with the key of its trace.

    Traces without a span of a model, a tool or an agent are skipped. A span that cannot be assigned to a trace is
    returned as a `ValueError` that says why.

    Args:
        value: A JSON value.

    Example:
        >>> span = {"traceId": "7", "spanId": "1", "name": "chat", "attributes": [
        ...     {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]}
        >>> [key for key, part in parts_of({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})]
        ['7']
    """
    found: dict[str, _Part] = {}
    problems: list[tuple[str | None, object]] = []
    for kind, resource, record in _records_in(value):
        problem = _problem_of(record, kind)
        if problem:
            problems.append((None, ValueError(problem)))
            continue
        assert isinstance(record, Mapping)
        if not _trace_id(record):  # a log record that belongs to no span
            continue
        found.setdefault(_trace_id(record), _Part()).add(kind, resource, record)
    return [*((key, part.document()) for key, part in found.items() if part.is_of_agent), *problems]


@checked_arguments()
def records_in(source: object) -> list[object]:
    """Return the traces of an export as records for `TraceAnalyser.run`.

    Args:
        source: The path of a file of OTLP JSON or JSON lines, its text or bytes, or the parsed document.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not JSON or JSON lines.

    Example:
        >>> records_in('{"resourceSpans": []}')
        []
    """
    traces: dict[object, list[object]] = {}
    for value in _values_of(source):
        for key, part in parts_of(value):
            if key is not None:
                traces.setdefault(key, []).append(part)
    return [parts[0] if len(parts) == 1 else parts for parts in traces.values()]


def span_records(trace: object) -> SpanRecords:
    """Return the spans and log records of one trace.

    Args:
        trace: One record of `records_in`, or an export with a single trace.

    Raises:
        TraceConversionError: It has no span of a model, a tool or an agent, or several traces.
    """
    records = records_in(trace)
    if len(records) > 1:
        raise TraceConversionError(
            f"this export has {len(records)} traces; give the analyser ace.otlp.records_in(...), or give the file to "
            "`ace learn`"
        )
    found = SpanRecords()
    for kind, resource, record in _records_in(records):
        assert isinstance(record, Mapping)
        (found.spans if kind == "spans" else found.logs).append(record)
        service = attributes_of(resource).get("service.name")
        if isinstance(service, str) and service not in found.services:
            found.services.append(service)
    if not found.spans:
        raise TraceConversionError(
            "this export has no span with GenAI or OpenInference attributes, so there is nothing to learn from"
        )
    return found


class _Part:
    """The records of one trace in one JSON value, by resource."""

    def __init__(self) -> None:
        self._groups: list[tuple[str, Record, list[Record]]] = []
        self.is_of_agent = False

    def add(self, kind: str, resource: Record, record: Record) -> None:
        # An event of a conversation is part of a trace even if its span comes in another line.
        self.is_of_agent = self.is_of_agent or is_of_agent(record)
        for group_kind, group_resource, records in self._groups:
            if group_kind == kind and group_resource is resource:
                records.append(record)
                return
        self._groups.append((kind, resource, [record]))

    def document(self) -> dict[str, object]:
        """Return the records as a document of their own."""
        resources: dict[str, list[object]] = {}
        for kind, resource, records in self._groups:
            scope = {_RECORDS[kind][0]: records}
            resources.setdefault(_RESOURCES[kind][0], []).append({"resource": resource, _SCOPES[kind][0]: [scope]})
        return {**resources}


def _records_in(value: object) -> Iterator[tuple[str, Record, object]]:
    """Yield each span and log record with its kind and resource; broken ones as they are."""
    if isinstance(value, list):
        for item in value:
            yield from _records_in(item)
    if not isinstance(value, Mapping):
        return
    if _is_bare_span(value):
        yield "spans", mapping_in(value, "resource"), value
    for kind in _RESOURCES:
        for resource in _mappings(list_in(value, *_RESOURCES[kind])):
            sender = mapping_in(resource, "resource")
            for scope in _mappings(list_in(resource, *_SCOPES[kind])):
                for record in list_in(scope, *_RECORDS[kind]):
                    yield kind, sender, record


def _problem_of(record: object, kind: str) -> str:
    """Return why a span or log record cannot be assigned to a trace; empty if it can."""
    if not isinstance(record, Mapping):
        return f"a {type(record).__name__} instead of an object in {_RECORDS[kind][0]}"
    if kind == "logs":
        return ""
    name = text_in(record, "name") or "without a name"
    if not _trace_id(record):
        return f"the span {name!r} has no trace id"
    return "" if _span_id(record) else f"the span {name!r} of trace {_trace_id(record)} has no span id"


def _is_export(record: object) -> bool:
    if not isinstance(record, Mapping):
        return False
    if _is_bare_span(record):
        return is_of_agent(record)
    names = (name for names in _RESOURCES.values() for name in names)
    return any(isinstance(record.get(name), list) for name in names)


def _is_bare_span(record: Mapping[object, object]) -> bool:
    """Whether a record is one span, in the JSON of OTLP or as `ReadableSpan.to_json` of OpenTelemetry writes it."""
    fields = {str(name): value for name, value in record.items()}
    return bool(_span_id(fields) and _trace_id(fields)) and isinstance(fields.get("attributes"), list | dict)


def _trace_id(record: Record) -> str:
    return _id(text_in(record, "traceId", "trace_id") or text_in(mapping_in(record, "context"), "trace_id"))


def _span_id(record: Record) -> str:
    return _id(text_in(record, "spanId", "span_id") or text_in(mapping_in(record, "context"), "span_id"))


def _id(text: str) -> str:
    """Return an id; an id of zeros is invalid, which is the same as none."""
    return "" if _NO_ID.fullmatch(text.removeprefix("0x")) else text


def _is_head(head: bytes) -> bool:
    if _DOCUMENT.match(head.removeprefix(b"\xef\xbb\xbf")):
        return True
    if not _SPAN.search(head):
        return False
    lines = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    first, _, _ = lines.partition("\n")
    values = [completed_json(text)[0] for text in dict.fromkeys([lines, first])]
    return any(map(_is_export, (item for value in values for item in (value if isinstance(value, list) else [value]))))


def _values_of(source: object) -> Sequence[object]:
    """Return the JSON values in a file or a text; anything else is a value already."""
    if isinstance(source, Path):
        source = source.read_bytes()
    if not isinstance(source, str | bytes):
        return [source]
    try:
        return [json.loads(source)]
    except (ValueError, RecursionError) as error:
        problem = error
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
    values = [value for line in text.removeprefix("\ufeff").split("\n") if (value := _loaded(line)) is not None]
    if not values:
        raise ValueError(f"this is not an export of spans: it is not JSON ({problem})") from None
    return values


def _loaded(line: str) -> object:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value


def _mappings(values: Iterable[object]) -> Iterator[Record]:
    return (value for value in values if isinstance(value, Mapping))
