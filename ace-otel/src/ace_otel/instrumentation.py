"""Starts and stops sending spans, metrics and log events."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from ace.protocols.observers import register_observer, unregister_observer
from ace_otel.backends import destination
from ace_otel.conventions import SCHEMA
from ace_otel.delivery import QUEUE, SpanDelivery, logs_provider, metrics_provider
from ace_otel.log_events import LogSender
from ace_otel.metrics import RunMetrics
from ace_otel.spans import SpanBuilder

if TYPE_CHECKING:
    from ace.protocols.observers import Event

__all__ = ["Instrumentation", "instrument", "observe"]

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_OBSERVER: Final = "ace_otel.instrument"
_ON: Final = ("1", "true", "yes", "on")


@final
class Instrumentation:
    """Sends spans, metrics and log events until `close`. Create it with `instrument`.

    Args:
        backend: The name of a backend; empty for the collector of the `OTEL_...` variables.
        content: Whether texts are sent.

    Raises:
        UsageError: There is no such backend, or the variables with its keys are not set.
    """

    def __init__(self, backend: str, *, content: bool) -> None:
        self.is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        """Whether `OTEL_SDK_DISABLED` prevents sending."""
        self._closing = threading.Lock()
        self._is_closed = False
        if self.is_disabled:
            return
        target = destination(backend, os.environ)
        named = {} if _has_service_name() else {"service.name": "ace"}
        resource = Resource.create({**named, **target.resource})
        self._delivery = SpanDelivery(target)
        self._provider = metrics_provider(target, resource)
        self._metrics = None if self._provider is None else RunMetrics(self._provider.get_meter("ace_otel"))
        sampler = TracerProvider(shutdown_on_exit=False).sampler  # it reads OTEL_TRACES_SAMPLER
        self._logs = logs_provider(target, resource)
        self._log_sender = None
        if self._logs is not None:
            logger = self._logs.get_logger("ace_otel", version("ace-otel"), SCHEMA)
            self._log_sender = LogSender(logger, limit=QUEUE)
        self._spans = SpanBuilder(
            self._delivery.add,
            resource=resource,
            sampler=sampler,
            content=content,
            happened=None if self._log_sender is None else self._log_sender.send,
        )
        atexit.register(self.close)

    @property
    def is_active(self) -> bool:
        """Whether events are being sent."""
        return not (self.is_disabled or self._is_closed)

    def observe(self, event: Event) -> None:
        """Handle one event of a run.

        Args:
            event: The event.
        """
        if not self.is_active:
            return
        self._spans.observe(event)
        if self._metrics is not None:
            self._metrics.observe(event)

    def close(self) -> None:
        """Send the queued data, for at most 5 seconds, and stop. A warning says how many spans were lost and why."""
        unregister_observer(_OBSERVER)
        with self._closing:
            if self.is_disabled or self._is_closed:
                return
            self._spans.close()
            self._is_closed = True
            atexit.unregister(self.close)
            if self._log_sender is not None:
                self._log_sender.close()
            providers = [provider for provider in (self._provider, self._logs) if provider is not None]
            self._delivery.close(*(provider.shutdown for provider in providers))
            lost = self._delivery.lost
        if lost:
            reason = self._delivery.problem.rstrip(".") or "it did not answer in time"
            _logger.warning(
                "ace-otel: %d of %d spans were lost, because %s did not accept them: %s",
                lost,
                self._delivery.ended,
                self._delivery.address,
                reason,
            )

    def __enter__(self) -> Instrumentation:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


_of_call: Instrumentation | None = None
_of_environment: Instrumentation | None = None
_is_read = False
"""Whether the environment has been read."""


def instrument(backend: str = "", *, content: bool = False) -> Instrumentation:
    """Send the runs of this process to an OpenTelemetry collector, until the process ends or `close` is called.

    An active instrumentation is closed first. With `OTEL_SDK_DISABLED=true`, nothing is sent.

    Args:
        backend: `langfuse`, `logfire`, `mlflow`, `opik` or `phoenix`; empty for the collector of the
            `OTEL_...` variables, by default `http://localhost:4318`.
        content: Whether to send the texts of prompts, answers and errors too. Secrets and personal data are redacted.

    Raises:
        UsageError: There is no such backend, or the variables with its keys are not set.

    Example:
        >>> with instrument("phoenix") as sending:
        ...     sending.is_disabled
        False
    """
    global _of_call
    made = Instrumentation(backend, content=content)
    with _lock:
        earlier, _of_call = _of_call, made
    if earlier is not None:
        earlier.close()
    if not made.is_disabled:
        register_observer(_OBSERVER, made.observe)
    return made


def observe(event: Event) -> None:
    """Handle one event if `ACE_OTEL` enables this; the observer of the plugin.

    `ACE_OTEL` is `1`, or the name of a backend. It has no effect while an `Instrumentation` from `instrument` is
    active.

    Args:
        event: The event.
    """
    global _is_read, _of_environment
    if _of_call is not None and _of_call.is_active:
        return
    if not _is_read:
        with _lock:
            if not _is_read:
                _is_read = True  # even if this fails: the core reports the error once, and the run continues
                named = os.environ.get("ACE_OTEL", "").strip()
                content = os.environ.get("ACE_OTEL_CONTENT", "").strip().lower() in _ON
                _of_environment = Instrumentation("" if named.lower() in _ON else named, content=content)
    made = _of_environment
    if made is not None:
        made.observe(event)


def _has_service_name() -> bool:
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
