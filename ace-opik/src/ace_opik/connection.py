"""The connection to Opik: how it is enabled, what is sent, and how it is closed.

Opik's client sends in the background, on its own threads; passing it a trace takes less than 0.1 ms, whatever the
server does. But at the end of the process, it waits without a limit for a server that does not answer. So this module
closes it, with a time limit and one warning about what was lost.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, final

from ace.calls import is_secret_name, redactor_for
from ace.redaction import Redactor

__all__ = ["Connection", "SpanRecord", "TraceRecord", "connect", "connect_or_warn", "flush", "redacted"]

_logger = logging.getLogger(__name__)
_lock = threading.Lock()

_CLOSING_SECONDS: Final = 4.5
"""How long the process may wait for Opik at exit, in seconds, so that closing takes less than 5 seconds."""
_LONGEST_TEXT: Final = 20_000
_DEEPEST: Final = 12
_SETTINGS: Final = {
    # Opik's client reports its errors and its use to its developers, unless these turn it off.
    "OPIK_SENTRY_ENABLE": "false",
    "OPIK_ANALYTICS_ENABLE": "false",
    # Otherwise another client in this process waits indefinitely when the process ends.
    "OPIK_DEFAULT_FLUSH_TIMEOUT": "4",
}
"""Variables that are set for Opik, unless the user has set them."""
_LOG_SETTINGS: Final = ("OPIK_CONSOLE_LOGGING_LEVEL", "OPIK_FILE_LOGGING_LEVEL")


class _Dropped(Protocol):
    @property
    def detail(self) -> str | None: ...


class _ErrorsReport(Protocol):
    @property
    def total_dropped_items(self) -> int: ...
    @property
    def failures(self) -> Sequence[_Dropped]: ...


class _Config(Protocol):
    @property
    def api_key(self) -> str | None: ...
    @property
    def url_override(self) -> str: ...
    @property
    def is_cloud_installation(self) -> bool: ...


class _SentTrace(Protocol):
    @property
    def id(self) -> str: ...


class OpikClient(Protocol):
    """The methods of `opik.Opik` that are used. The package may be missing, so its types are not."""

    @property
    def config(self) -> _Config: ...
    def trace(self, **fields: object) -> _SentTrace: ...
    def span(self, **fields: object) -> object: ...
    def flush(self, timeout: float) -> bool: ...
    def get_errors_report(self) -> _ErrorsReport: ...
    def end(self, timeout: float | None = None, *, flush: bool = True) -> object: ...


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span of a trace, which has ended."""

    name: str
    start: datetime
    end: datetime
    kind: str = "general"
    """`general` or `llm`."""
    input: Mapping[str, object] | None = None
    output: Mapping[str, object] | None = None
    metadata: Mapping[str, object] | None = None
    model: str | None = None
    provider: str | None = None
    usage: Mapping[str, int] | None = None
    """`prompt_tokens`, `completion_tokens` and `total_tokens`."""
    cost: float | None = None
    """US dollars."""


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """A trace, which has ended. Its texts are redacted already."""

    project: str
    name: str
    start: datetime
    end: datetime
    input: Mapping[str, object] | None = None
    output: Mapping[str, object] | None = None
    metadata: Mapping[str, object] | None = None
    tags: Sequence[str] = ()
    spans: Sequence[SpanRecord] = field(default=())


@final
class Connection:
    """A client of Opik, which sends traces in the background.

    Args:
        client: The client.
    """

    def __init__(self, client: OpikClient) -> None:
        self._client = client
        self._address = client.config.url_override
        self._sent = 0
        self._has_warned = False
        self._is_closed = False

    def send(self, trace: TraceRecord) -> None:
        """Queue a trace for sending. An error is logged, because it must not fail the run.

        Args:
            trace: The trace, with its spans.
        """
        if self._is_closed:
            return
        try:
            sent = self._client.trace(
                name=trace.name,
                start_time=trace.start,
                end_time=trace.end,
                input=trace.input,
                output=trace.output,
                metadata=trace.metadata,
                tags=list(trace.tags),
                project_name=trace.project,
            )
            for span in trace.spans:
                # Created with its end: an update could arrive before the span, and would be lost.
                self._client.span(
                    trace_id=sent.id,
                    name=span.name,
                    type=span.kind,
                    start_time=span.start,
                    end_time=span.end,
                    input=span.input,
                    output=span.output,
                    metadata=span.metadata,
                    model=span.model,
                    provider=span.provider,
                    usage=span.usage,
                    total_cost=span.cost,
                    project_name=trace.project,
                )
            self._sent += 1
        except Exception as error:
            self.warn(f"a trace was not sent: {type(error).__name__}: {error}")

    def warn(self, problem: str) -> None:
        """Log the first problem; later ones are not logged.

        Args:
            problem: What is wrong.
        """
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("ace-opik: %s", problem)

    def flush(self, timeout: float) -> bool:
        """Wait until Opik has received everything that was sent so far.

        Args:
            timeout: The maximum wait, in seconds.

        Returns:
            Whether everything was received.
        """
        is_flushed = self._client.flush(timeout)
        return is_flushed and not self._kept_batches and not self._client.get_errors_report().total_dropped_items

    @property
    def _kept_batches(self) -> int:
        """The batches that the client keeps until the server is available; its `flush` counts them as received.

        Opik has no public method for them. If a later release removes these attributes, none are counted.
        """
        streamer = getattr(self._client, "_streamer", None)
        database = getattr(getattr(streamer, "_fallback_replay_manager", None), "database_manager", None)
        return 0 if database is None else max(0, int(database.failed_messages_count()))

    def close(self) -> None:
        """Send the queued traces, for at most 4.5 seconds, and stop. A warning says what was lost."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._sent and not self.flush(_CLOSING_SECONDS):
            report = self._client.get_errors_report()
            reason = next((failure.detail for failure in report.failures if failure.detail), None)
            lost = f"{report.total_dropped_items} traces and spans were lost" if report.failures else "traces were lost"
            self._has_warned = False
            self.warn(f"{lost}, because {self._address} did not accept them: {reason or 'it did not answer in time'}")
        self._client.end(flush=False)


_connections: dict[tuple[str | None, ...], Connection] = {}
"""The open connections, by address, workspace and key, under `_lock`."""


def connect() -> Connection | None:
    """Return the connection that the environment variables describe; None if they disable Opik.

    Raises:
        ImportError: `opik` is not installed.
        RuntimeError: The client cannot start.
    """
    if _is_switched_off(os.environ):
        return None
    names = ("OPIK_URL_OVERRIDE", "OPIK_WORKSPACE", "OPIK_API_KEY")
    address, workspace, key = settings = tuple(os.environ.get(name) or None for name in names)
    with _lock:
        found = _connections.get(settings)
        if found is None:
            found = _connections[settings] = Connection(_client(address, workspace, key))
            # Registered after Opik's own function, so called before it.
            atexit.register(found.close)
    return found


def connect_or_warn() -> Connection | None:
    """Return the connection that the environment variables describe; None if Opik is disabled or cannot be used.

    If the client cannot start, a warning says why. If the package is not installed, there is no warning.
    """
    try:
        return connect()
    except ImportError:
        return None
    except RuntimeError as error:
        _logger.warning("ace-opik: nothing is sent: %s", error)
        return None


def flush(timeout: float = 5.0) -> bool:
    """Wait until Opik has received everything that was sent so far.

    Args:
        timeout: The maximum wait, in seconds.

    Returns:
        Whether everything was received. True if nothing was to be sent.

    Example:
        >>> flush(timeout=2.0)
        True
    """
    deadline = time.monotonic() + timeout
    with _lock:
        connections = list(_connections.values())
    received = [connection.flush(max(0.0, deadline - time.monotonic())) for connection in connections]
    return all(received)


def _is_switched_off(environ: Mapping[str, str]) -> bool:
    def says(name: str, *words: str) -> bool:
        return environ.get(name, "").strip().lower() in words

    return says("OPIK_DISABLED", "1", "true", "yes", "on") or says("OPIK_ENABLED", "0", "false", "no", "off")


def _client(address: str | None, workspace: str | None, key: str | None) -> OpikClient:
    """Return a new client.

    Raises:
        ImportError: `opik` is not installed.
        RuntimeError: It cannot start.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if address is not None and not address.startswith(("http://", "https://")):
        raise RuntimeError(f"OPIK_URL_OVERRIDE must be a URL such as http://localhost:5173/api, got {address!r}")
    try:
        import opik

        client: OpikClient = opik.Opik(
            workspace=workspace, host=address, api_key=key, _show_misconfiguration_message=False
        )
    except ImportError:
        raise
    except Exception as error:  # of any class: both read the settings of Opik, and the client starts threads
        said = " ".join(str(error).split())
        raise RuntimeError(f"Opik's client cannot start: {type(error).__name__}: {said}") from error
    if not any(name in os.environ for name in _LOG_SETTINGS):
        # Each failed attempt is logged; one warning at the end says what was lost.
        logging.getLogger("opik").setLevel(logging.CRITICAL)
    if client.config.is_cloud_installation and not client.config.api_key:
        client.end(flush=False)
        raise RuntimeError(
            "Opik's cloud needs a key: set OPIK_API_KEY, or the address of your own server as OPIK_URL_OVERRIDE"
        )
    return client


def redacted(value: object, redactor: Redactor | None = None) -> Any:
    """Convert a value to JSON, with redacted texts.

    Fields whose names suggest secrets are redacted completely. An object that is not JSON is represented by the name of
    its class.

    Args:
        value: Any value.
        redactor: Redacts the texts; by default as the run allows it.

    Example:
        >>> redacted({"to": "jane@acme.com", "password": "x", "count": 3, "model": object()})
        {'to': '[hidden: email_address]', 'password': '[hidden: secret]', 'count': 3, 'model': '<object>'}
    """
    return _redacted(value, redactor_for() if redactor is None else redactor, _DEEPEST)


def _redacted(value: object, redactor: Redactor, depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        text = redactor.redact(value)
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
    if depth > 0 and isinstance(value, Mapping):
        return {
            redactor.redact(str(name)): "[hidden: secret]"
            if is_secret_name(str(name)) and inner
            else _redacted(inner, redactor, depth - 1)
            for name, inner in value.items()
        }
    if depth > 0 and isinstance(value, list | tuple | set | frozenset):
        return [_redacted(inner, redactor, depth - 1) for inner in value]
    return f"<{type(value).__name__}>"
