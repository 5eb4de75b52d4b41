"""Sends the events on spans as log events too, with the ids of their trace and span.

OpenTelemetry's classes for logs are in modules whose names begin with an underscore, because their API is not final; it
is only used here and in `delivery`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

__all__ = ["LogEvent", "LogSender"]

_NO_CONTEXT: Final = Context()
_DELAY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event of a run."""

    name: str
    """The name of the event on the span."""
    text: str
    """A description in one line."""
    attributes: Mapping[str, AttributeValue]
    """The attributes of the event on the span."""
    time: int
    """Nanoseconds since 1970."""
    span: SpanContext
    """The span to which it belongs."""
    severity: SeverityNumber = SeverityNumber.INFO
    """The severity: INFO, WARN for a run that was stopped, ERROR for a failed sample."""


@final
class LogSender:
    """Sends log events.

    OpenTelemetry needs some 10 us for the record of an event. They are built on a thread of this class, so that the run
    does not wait for it; at most `limit` events wait, and those that do not fit are dropped.

    Args:
        logger: The logger of OpenTelemetry.
        limit: The maximum number of waiting events.
    """

    def __init__(self, logger: Logger, *, limit: int) -> None:
        self._logger = logger
        self._limit = limit
        self._waiting: deque[LogEvent] = deque()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._emit_until_closed, name="ace-otel-logs", daemon=True)
        self._thread.start()

    def send(self, event: LogEvent) -> None:
        """Add a log event to the queue. If its trace is not sampled, it is dropped, like the spans of the trace."""
        if event.span.trace_flags.sampled and len(self._waiting) < self._limit:
            self._waiting.append(event)

    def close(self) -> None:
        """Pass the queued events to OpenTelemetry."""
        self._ends.set()
        self._thread.join()

    def _emit_until_closed(self) -> None:
        while not self._ends.wait(_DELAY_SECONDS):
            self._emit_waiting()
        self._emit_waiting()

    def _emit_waiting(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            self._logger.emit(
                LogRecord(
                    timestamp=event.time,
                    observed_timestamp=event.time,
                    context=set_span_in_context(NonRecordingSpan(event.span), _NO_CONTEXT),
                    severity_number=event.severity,
                    severity_text=event.severity.name,
                    body=event.text,
                    attributes=event.attributes,
                    event_name=event.name,
                )
            )
