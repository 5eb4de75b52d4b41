"""Finds spans, and what belongs to them, in the values of an export, in whatever document a tool has written them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from ace.logs.building import fields_of, text_of
from ace.logs.formats.spans.cut_json import completed_json
from ace.logs.formats.spans.dialects import MARKS

__all__ = ["Piece", "attributes_of", "event_name", "first_of", "is_of_agent", "parent_id", "pieces_of", "span_id"]

_RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "span": ("resourceSpans", "resource_spans", "batches"),
    "log": ("resourceLogs", "resource_logs"),
}
_SCOPES: Final[Mapping[str, tuple[str, ...]]] = {
    "span": ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"),
    "log": ("scopeLogs", "scope_logs"),
}
_RECORDS: Final[Mapping[str, tuple[str, ...]]] = {"span": ("spans",), "log": ("logRecords", "log_records")}
_ENVELOPES: Final = ("data", "spans", "traces", "trace", "results", "rows", "items")
_NO_ID: Final = re.compile(r"0*")
_COLUMN: Final = "attributes."
_EVENTS: Final = re.compile(r"gen_ai\.(?:\w+\.message|choice|content\.\w+|evaluation.*|client\.inference\..*)")
_DEEPEST: Final = 10

PieceKind = Literal["span", "log", "about", "problem"]


class Piece(NamedTuple):
    """A part of an export that belongs to one trace."""

    trace: str
    """The id of the trace; empty if the part belongs to none."""
    kind: PieceKind
    """A span, a log record, facts about the whole trace, or why something cannot be read."""
    record: Mapping[str, Any]
    parent: str = ""
    """The id of the span around it, in exports whose records do not name it themselves."""
    service: str = ""
    """The service that sent it."""
    reason: str = ""
    """For a problem, what is wrong."""


def pieces_of(value: object, depth: int = 0) -> Iterator[Piece]:
    """Yield the spans and other parts of traces in a value of an export.

    Args:
        value: An OTLP document, a span, a row of a table of spans, or a list or object with those.
        depth: How deep the value is in the export.
    """
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in value:
            yield from pieces_of(item, depth + 1)
        return
    if not isinstance(value, dict):
        return
    if _is_span(value):
        yield _checked("span", _without_columns(value), text_of(fields_of(value.get("resource")).get("service.name")))
        return
    found = False
    for kind in ("span", "log"):
        for piece in _of_resources(kind, value):
            found = True
            yield piece
    if not found:
        yield from _of_envelope(value, depth)


def _of_envelope(value: Mapping[str, Any], depth: int) -> Iterator[Piece]:
    """Yield what is in the lists of an object; of one trace as MLflow writes it, also the facts beside its spans."""
    inner = {name: value[name] for name in _ENVELOPES if isinstance(value.get(name), dict | list)}
    trace = ""
    for content in inner.values():
        for piece in pieces_of(content, depth + 1):
            trace = trace or piece.trace
            yield piece
    about = {**value, **fields_of(value.get("info"))}
    if trace and about.keys() - inner.keys() and ("assessments" in about or "info" in value):
        yield Piece(trace, "about", {name: item for name, item in about.items() if name not in inner})


def _of_resources(kind: PieceKind, value: Mapping[str, Any]) -> Iterator[Piece]:
    for resource in _objects(first_of(value, *_RESOURCES[kind])):
        service = attributes_of(fields_of(resource.get("resource"))).get("service.name")
        for scope in _objects(first_of(resource, *_SCOPES[kind])):
            records = first_of(scope, *_RECORDS[kind])
            for record in records if isinstance(records, list) else ():
                yield _checked(kind, record, service if isinstance(service, str) else "")


def _checked(kind: PieceKind, record: object, service: str) -> Piece:
    """Return a span or log record, or why it cannot be assigned to a trace."""
    if not isinstance(record, dict):
        reason = f"a {type(record).__name__} instead of an object in {_RECORDS[kind][0]}"
        return Piece("", "problem", {}, reason=reason)
    trace = _trace_id(record)
    name = text_of(record.get("name")) or "without a name"
    if kind == "span" and not trace:
        return Piece("", "problem", {}, reason=f"the span {name!r} has no trace id")
    if kind == "span" and not span_id(record):
        return Piece("", "problem", {}, reason=f"the span {name!r} of trace {trace} has no span id")
    return Piece(trace, kind, record, service=service)


def _is_span(record: Mapping[str, Any]) -> bool:
    """Whether an object is one span: of OTLP, of the SDK's `to_json`, or a row of a table with a column each."""
    if not span_id(record) or not _trace_id(record):
        return False
    attributes = record.get("attributes")
    if isinstance(attributes, str):
        attributes = completed_json(attributes)[0]
    return isinstance(attributes, list | dict) or any(name.startswith(_COLUMN) for name in record)


def _without_columns(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a span with the attributes that are columns of a table in `attributes`."""
    columns = {name.removeprefix(_COLUMN): item for name, item in record.items() if name.startswith(_COLUMN)}
    present = {name: item for name, item in columns.items() if item is not None and item != ""}
    return {**record, "attributes": {**attributes_of(record), **present}} if columns else record


def _trace_id(record: Mapping[str, Any]) -> str:
    return _id(record, "traceId", "trace_id", "context.trace_id")


def span_id(record: Mapping[str, Any]) -> str:
    """Return the id of a span, or of that to which a log record belongs; empty if it has none that is valid."""
    return _id(record, "spanId", "span_id", "context.span_id")


def parent_id(record: Mapping[str, Any]) -> str:
    """Return the id of the span around a span; empty for the outermost one."""
    return _id(record, "parentSpanId", "parent_span_id", "parent_id")


def _id(record: Mapping[str, Any], *names: str) -> str:
    context = fields_of(record.get("context"))
    found = first_of(record, *names) or first_of(context, *names)
    text = found if isinstance(found, str) else ""
    return "" if _NO_ID.fullmatch(text.removeprefix("0x")) else text


def first_of(fields: Mapping[str, Any], *names: str) -> Any:
    """Return the value of the first of these names that is there and not empty."""
    return next((fields[name] for name in names if fields.get(name) not in (None, "")), None)


def is_of_agent(record: Mapping[str, Any]) -> bool:
    """Return whether a span or log record is that of a model, a tool or an agent, by its attributes or its name.

    Args:
        record: The span or log record.

    Example:
        >>> is_of_agent({"attributes": {"openinference.span.kind": "TOOL"}}), is_of_agent({"attributes": []})
        (True, False)
    """
    attributes = attributes_of(record)
    return any(f"{name}.".startswith(MARKS) for name in attributes) or bool(
        _EVENTS.fullmatch(event_name(record, attributes))
    )


def event_name(event: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    """Return the name of an event of a span, or of a log record."""
    return text_of(first_of(event, "name", "eventName", "event_name") or attributes.get("event.name"))


def attributes_of(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, an event, a log record or a resource, also those of the body of a log record.

    Args:
        holder: The object; OTLP writes attributes as a list of keys and typed values, other exporters as an object.
    """
    attributes = holder.get("attributes")
    if isinstance(attributes, str):
        attributes = completed_json(attributes)[0]
    found = {str(name): value for name, value in attributes.items()} if isinstance(attributes, dict) else None
    body = _value(holder.get("body"))
    return {**(_of_pairs(attributes) if found is None else found), **(body if isinstance(body, dict) else {})}


def _of_pairs(pairs: object) -> dict[str, Any]:
    return {text_of(pair.get("key")): _value(pair.get("value")) for pair in _objects(pairs)}


def _value(value: object) -> object:
    """Return the value that OTLP writes as an object with its type."""
    if not isinstance(value, dict):
        return value
    names = {str(name).lower().replace("_", ""): content for name, content in value.items()}
    if "intvalue" in names:
        with suppress(ValueError):
            return int(str(names["intvalue"]))  # 64-bit numbers are texts in JSON
    if "arrayvalue" in names:
        values = fields_of(names["arrayvalue"]).get("values")
        return [_value(element) for element in values] if isinstance(values, list) else []
    if "kvlistvalue" in names:
        return _of_pairs(fields_of(names["kvlistvalue"]).get("values"))
    return next(iter(names.values()), None)


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
