"""Sends spans, metrics and log events in the background, counts the delivered spans, and stops within a time limit.

A slow or unreachable collector must not delay a run: spans wait in a bounded queue, and those that do not fit are
counted as lost. The exporters of OpenTelemetry log each attempt; these messages are captured, and used in our own
warning.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, final

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from ace_otel.backends import Destination

__all__ = ["CLOSING_SECONDS", "QUEUE", "SpanDelivery", "logs_provider", "metrics_provider"]

CLOSING_SECONDS: Final = 4.5
"""How long the process may wait for the collector at exit, in seconds, so that closing takes less than 5 seconds."""
QUEUE: Final = 20_000
"""The maximum number of waiting spans, and of log events, unless `OTEL_BSP_MAX_QUEUE_SIZE` sets another one."""
_DELAY_MS: Final = 1000

_sending = threading.local()
"""In a sending thread of ace-otel, `keep` is called with each log message of an exporter."""


def _ignore(message: str) -> None:
    """Drop a message, because the number of lost spans is reported."""


class _KeptMessages(logging.Filter):
    """Captures the log messages of the exporters that work for ace-otel."""

    def filter(self, record: logging.LogRecord) -> bool:
        keep: Callable[[str], object] | None = getattr(_sending, "keep", None)
        if keep is None:  # the exporter belongs to another user of OpenTelemetry in this process
            return True
        keep(record.getMessage())
        return False


_filter: Final = _KeptMessages()
for _module in (OTLPSpanExporter.__module__, OTLPMetricExporter.__module__, OTLPLogExporter.__module__):
    logging.getLogger(_module).addFilter(_filter)


@final
class _CountingSpanExporter(SpanExporter):
    """Counts the spans that the collector has accepted."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self._exporter = exporter
        self.delivered = 0
        self.failed = 0
        self.problem = ""
        self._is_first = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._is_first = True
        _sending.keep = self._keep
        try:
            result = self._exporter.export(spans)
        finally:
            _sending.keep = None
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)
        else:
            self.failed += len(spans)
        return result

    def _keep(self, message: str) -> None:
        """Record the first message of an export immediately: retries may take longer than the process waits."""
        if self._is_first:
            self.problem, self._is_first = message, False

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # OpenTelemetry gives it no types


@final
class _QuietMetricExporter(MetricExporter):
    """Sends metrics without logging errors: if the collector is unreachable, the warning about lost spans says so."""

    def __init__(self, exporter: OTLPMetricExporter) -> None:
        super().__init__()
        self._exporter = exporter

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> MetricExportResult:
        _sending.keep = _ignore
        try:
            return self._exporter.export(metrics_data, timeout_millis)
        finally:
            _sending.keep = None

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        self._exporter.shutdown(timeout_millis)


@final
class _QuietLogExporter(LogRecordExporter):
    """Sends log events without logging errors, like `_QuietMetricExporter`."""

    def __init__(self, exporter: OTLPLogExporter) -> None:
        self._exporter = exporter

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        _sending.keep = _ignore
        try:
            return self._exporter.export(batch)
        finally:
            _sending.keep = None

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        return True

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # OpenTelemetry gives it no types


@final
class SpanDelivery:
    """A queue of spans, and the thread that sends them.

    Args:
        destination: The address to send them to.
    """

    def __init__(self, destination: Destination) -> None:
        self.address = destination.traces
        self._exporter = _CountingSpanExporter(
            OTLPSpanExporter(endpoint=destination.traces, headers=dict(destination.headers))
        )
        self._limit = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", "") or QUEUE)
        delay = float(os.environ.get("OTEL_BSP_SCHEDULE_DELAY", "") or _DELAY_MS)
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=self._limit, schedule_delay_millis=delay)
        self._lock = threading.Lock()
        self._taken = 0
        self._ended = 0

    def add(self, span: ReadableSpan) -> None:
        """Add a span to the queue, or drop it if the queue is full.

        Args:
            span: A span that has ended.
        """
        with self._lock:
            self._ended += 1
            is_full = self._taken - self._exporter.delivered - self._exporter.failed >= self._limit
            self._taken += not is_full
        if not is_full:
            self._processor.on_end(span)

    def close(self, *others: Callable[[], object], seconds: float = CLOSING_SECONDS) -> None:
        """Send the queued spans, within a time limit.

        Args:
            *others: Called concurrently, within the same limit, to stop sending metrics and log events.
            seconds: The time limit, in seconds.
        """
        deadline = time.monotonic() + seconds
        works = [self._processor.shutdown, *others]
        threads = [threading.Thread(target=_quietly, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def ended(self) -> int:
        """The number of spans that have ended."""
        return self._ended

    @property
    def lost(self) -> int:
        """The number of spans that the collector has not accepted."""
        return self._ended - self._exporter.delivered

    @property
    def problem(self) -> str:
        """The last error message of the exporter; empty if there was none."""
        return self._exporter.problem


def _quietly(work: object) -> None:
    """Call a function, and ignore its exception: the number of lost spans reports the failure."""
    assert callable(work)
    _sending.keep = _ignore
    work()


def metrics_provider(destination: Destination, resource: Resource) -> MeterProvider | None:
    """Return the provider of the instruments; None if no metrics are sent.

    Args:
        destination: The address to send them to.
        resource: The resource that they share with the spans.
    """
    if not destination.metrics:
        return None
    exporter = OTLPMetricExporter(endpoint=destination.metrics, headers=dict(destination.headers))
    reader = PeriodicExportingMetricReader(_QuietMetricExporter(exporter))
    return MeterProvider([reader], resource, shutdown_on_exit=False)


def logs_provider(destination: Destination, resource: Resource) -> LoggerProvider | None:
    """Return the provider of the logger; None if no log events are sent.

    Args:
        destination: The address to send them to.
        resource: The resource that they share with the spans.
    """
    if not destination.logs:
        return None
    exporter = OTLPLogExporter(endpoint=destination.logs, headers=dict(destination.headers))
    provider = LoggerProvider(resource, shutdown_on_exit=False)
    limit = int(os.environ.get("OTEL_BLRP_MAX_QUEUE_SIZE", "") or QUEUE)
    provider.add_log_record_processor(BatchLogRecordProcessor(_QuietLogExporter(exporter), max_queue_size=limit))
    return provider
