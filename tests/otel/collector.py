"""A collector on loopback that decodes OTLP protobuf, and answers as it is told."""

from __future__ import annotations

import gzip
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True)
class ReceivedEvent:
    name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class ReceivedSpan:
    name: str
    trace_id: str
    id: str
    parent: str
    start: int
    end: int
    kind: int
    failed: bool
    message: str
    attributes: Mapping[str, Any]
    events: list[ReceivedEvent]
    links: list[tuple[str, str]]
    resource: Mapping[str, Any]


@dataclass(frozen=True)
class ReceivedLog:
    name: str
    text: str
    severity: str
    time: int
    trace_id: str
    span: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]


@dataclass
class Post:
    path: str
    headers: Mapping[str, str]


@dataclass
class Collector:
    """Serves while it is entered. `status` is what it answers; with `silent`, it never answers."""

    status: int = 200
    silent: bool = False
    content_type: str = "application/x-protobuf"
    rejected: int = 0
    posts: list[Post] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    logs: list[ReceivedLog] = field(default_factory=list)
    _metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._ends = threading.Event()
        handler = type("Handler", (_Handler,), {"collector": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ends.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environ(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.address}

    def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        if self.silent:
            self._ends.wait()
        with self._lock:
            self.posts.append(Post(path, headers))
            if self.status != 200:
                return b""
            if path.endswith("/metrics"):
                self._metrics.append(ExportMetricsServiceRequest.FromString(body))
                accepted: bytes = ExportMetricsServiceResponse().SerializeToString()
                return accepted
            if path.endswith("/logs"):
                self.logs += _logs_in(ExportLogsServiceRequest.FromString(body))
                noted: bytes = ExportLogsServiceResponse().SerializeToString()
                return noted
            self.spans += _spans_in(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse()
            if self.rejected:
                answer.partial_success.rejected_spans = self.rejected
                answer.partial_success.error_message = "the project does not exist"
            answered: bytes = answer.SerializeToString()
            return answered

    def metric(self, name: str) -> dict[tuple[tuple[str, Any], ...], float]:
        """The last value of a metric, by attributes, summed over processes; of a histogram, the sum."""
        last: dict[tuple[object, ...], tuple[tuple[tuple[str, Any], ...], float]] = {}
        for resource, metric in self._all_metrics():
            if metric.name != name:
                continue
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                attributes = tuple(sorted(_attributes(point.attributes).items()))
                value = point.sum if kind == "histogram" else point.as_double or point.as_int
                last[resource, point.start_time_unix_nano, attributes] = (attributes, value)
        summed: dict[tuple[tuple[str, Any], ...], float] = defaultdict(float)
        for attributes, value in last.values():
            summed[attributes] += value
        return dict(summed)

    def bounds(self, name: str) -> list[float]:
        """The bounds of a histogram."""
        metric = next(metric for _, metric in self._all_metrics() if metric.name == name)
        return list(metric.histogram.data_points[0].explicit_bounds)

    def total(self, name: str, **attributes: object) -> float:
        """The sum of a metric over the points with these attributes, whose dots are written as underscores."""
        wanted = set(attributes.items())
        return sum(
            value
            for found, value in self.metric(name).items()
            if wanted <= {(key.replace(".", "_"), held) for key, held in found}
        )

    def _all_metrics(self) -> Iterator[tuple[str, Any]]:
        for request in self._metrics:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        yield str(resource.resource), metric


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    collector: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.collector.receive(self.path, headers, body)
        try:
            self.send_response(self.collector.status)
            self.send_header("content-type", self.collector.content_type)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:  # the client has given up
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _spans_in(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for resource in request.resource_spans:
        about = _attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    kind=span.kind,
                    failed=span.status.code == 2,
                    message=span.status.message,
                    attributes=_attributes(span.attributes),
                    events=[ReceivedEvent(event.name, _attributes(event.attributes)) for event in span.events],
                    links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    resource=about,
                )


def _logs_in(request: ExportLogsServiceRequest) -> Iterator[ReceivedLog]:
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                yield ReceivedLog(
                    name=record.event_name,
                    text=record.body.string_value,
                    severity=record.severity_text,
                    time=record.time_unix_nano,
                    trace_id=record.trace_id.hex(),
                    span=record.span_id.hex(),
                    attributes=_attributes(record.attributes),
                    resource=_attributes(resource.resource.attributes),
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    pair: KeyValue
    for pair in pairs:
        found[pair.key] = _value(pair.value)
    return found


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(element) for element in value.array_value.values]
    return None if kind is None else getattr(value, kind)


def tree(spans: list[ReceivedSpan]) -> list[str]:
    """The names of spans, indented by their depth, children in order of time; equal siblings are counted."""
    known = {span.id for span in spans}
    lines: list[str] = []

    def add(parent: str, depth: int) -> None:
        for span in sorted((child for child in spans if child.parent == parent), key=lambda child: child.start):
            lines.append(f"{'    ' * depth}{span.name}")
            add(span.id, depth + 1)

    for root in sorted({span.parent for span in spans} - known):
        add(root, 0)
    return lines
