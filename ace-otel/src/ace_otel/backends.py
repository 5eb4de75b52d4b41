"""The destinations of spans, metrics and log events: the collector of the OTEL_... variables, or a named backend."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from ace.integrations import UsageError

__all__ = ["BACKENDS", "Destination", "destination"]

_COLLECTOR: Final = "http://localhost:4318"
_LOGFIRE_REGION: Final = re.compile(r"pylf_v[0-9]+_([a-z]+)_")


@dataclass(frozen=True, slots=True)
class Destination:
    """The addresses to which spans, metrics and log events are posted."""

    traces: str
    """The URL for spans."""
    metrics: str
    """The URL for metrics; empty if they are not sent."""
    logs: str
    """The URL for log events; empty if they are not sent."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The headers of the backend and of `OTEL_EXPORTER_OTLP_HEADERS`, which contain keys."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """Resource attributes by which the backend selects the project."""


@dataclass(frozen=True, slots=True)
class _Backend:
    """The OTLP endpoint of a backend, according to its documentation."""

    default: Callable[[Mapping[str, str]], str]
    """Returns the address of the backend for the given environment, unless one of `variables` sets it."""
    variables: tuple[str, ...]
    """The backend's own variables for its address."""
    path: str
    """The path for spans."""
    headers: Callable[[Mapping[str, str]], Mapping[str, str]]
    """Returns the headers for the environment variables."""
    metrics_path: str = ""
    """The path for metrics; empty if the backend does not accept them."""
    logs_path: str = ""
    """The path for log events; empty if the backend does not accept them."""
    resource: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda environ: {}
    """Returns the resource attributes for the environment variables."""


def destination(backend: str, environ: Mapping[str, str]) -> Destination:
    """Return the destination of spans, metrics and log events.

    `OTEL_EXPORTER_OTLP_ENDPOINT` and similar variables take precedence over the backend's own address. With
    `OTEL_METRICS_EXPORTER=none` or `OTEL_LOGS_EXPORTER=none`, no metrics or no log events are sent.

    Args:
        backend: The name of a backend; empty for the collector of the OTEL_... variables.
        environ: The environment variables.

    Raises:
        UsageError: There is no such backend, or the variables with its keys are not set.

    Example:
        >>> destination("phoenix", {"PHOENIX_API_KEY": "k"}).traces
        'http://localhost:6006/v1/traces'
        >>> destination("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}).metrics
        'http://collector:4318/v1/metrics'
    """
    if backend and backend not in BACKENDS:
        raise UsageError(f"no backend {backend!r}; the backends are {', '.join(sorted(BACKENDS))}")
    base = _set(environ, "OTEL_EXPORTER_OTLP_ENDPOINT")
    traces_path, metrics_path, logs_path = "/v1/traces", "/v1/metrics", "/v1/logs"
    headers: Mapping[str, str] = {}
    resource: Mapping[str, str] = {}
    if backend:
        preset = BACKENDS[backend]
        base = base or next(filter(None, (_set(environ, name) for name in preset.variables)), preset.default(environ))
        traces_path, metrics_path, logs_path = preset.path, preset.metrics_path, preset.logs_path
        headers, resource = preset.headers(environ), preset.resource(environ)
    base = (base or _COLLECTOR).rstrip("/")

    def address(signal: str, path: str) -> str:
        if _set(environ, f"OTEL_{signal}_EXPORTER").lower() == "none":
            return ""
        return _set(environ, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or (f"{base}{path}" if path else "")

    return Destination(
        traces=_set(environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or f"{base}{traces_path}",
        metrics=address("METRICS", metrics_path),
        logs=address("LOGS", logs_path),
        headers={**headers, **_listed(_set(environ, "OTEL_EXPORTER_OTLP_HEADERS"))},
        resource=resource,
    )


def _set(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _listed(text: str) -> dict[str, str]:
    """Return the headers of `name=value,name=value`, whose values are percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}


def _needed(environ: Mapping[str, str], backend: str, *names: str) -> tuple[str, ...]:
    missing = [name for name in names if not _set(environ, name)]
    if missing:
        raise UsageError(f"{backend} requires the environment variable {' and '.join(missing)}")
    return tuple(_set(environ, name) for name in names)


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode('ascii')}"


def _langfuse_headers(environ: Mapping[str, str]) -> Mapping[str, str]:
    public, secret = _needed(environ, "langfuse", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
    return {"authorization": _basic(public, secret), "x-langfuse-ingestion-version": "4"}


def _phoenix_headers(environ: Mapping[str, str]) -> Mapping[str, str]:
    key = _set(environ, "PHOENIX_API_KEY")
    return {"authorization": f"Bearer {key}"} if key else {}


def _opik_headers(environ: Mapping[str, str]) -> Mapping[str, str]:
    named = {
        "authorization": _set(environ, "OPIK_API_KEY"),
        "comet-workspace": _set(environ, "OPIK_WORKSPACE"),
        "projectname": _set(environ, "OPIK_PROJECT_NAME"),
    }
    return {name: value for name, value in named.items() if value}


def _logfire_address(environ: Mapping[str, str]) -> str:
    """Return the address of the region in the token, or of the first region if the token does not contain one."""
    region = _LOGFIRE_REGION.match(_set(environ, "LOGFIRE_TOKEN"))
    return f"https://logfire-{'eu' if region and region[1] == 'eu' else 'us'}.pydantic.dev"


def _logfire_headers(environ: Mapping[str, str]) -> Mapping[str, str]:
    return {"authorization": _needed(environ, "logfire", "LOGFIRE_TOKEN")[0]}


def _mlflow_headers(environ: Mapping[str, str]) -> Mapping[str, str]:
    experiment = _set(environ, "MLFLOW_EXPERIMENT_ID") or "0"
    named = {
        "x-mlflow-experiment-id": experiment,
        "x-mlflow-workspace": _set(environ, "MLFLOW_WORKSPACE"),
        "authorization": _mlflow_login(environ),
    }
    return {name: value for name, value in named.items() if value}


def _mlflow_login(environ: Mapping[str, str]) -> str:
    """Return the credentials; a user name with its password takes precedence over a token."""
    user, password = _set(environ, "MLFLOW_TRACKING_USERNAME"), _set(environ, "MLFLOW_TRACKING_PASSWORD")
    token = _set(environ, "MLFLOW_TRACKING_TOKEN")
    if user and password:
        return _basic(user, password)
    return f"Bearer {token}" if token else ""


def _phoenix_project(environ: Mapping[str, str]) -> Mapping[str, str]:
    project = _set(environ, "PHOENIX_PROJECT") or _set(environ, "PHOENIX_PROJECT_NAME")
    return {"openinference.project.name": project} if project else {}


BACKENDS: Final[Mapping[str, _Backend]] = {
    "langfuse": _Backend(
        default=lambda environ: "https://cloud.langfuse.com",
        variables=("LANGFUSE_BASE_URL", "LANGFUSE_HOST"),
        path="/api/public/otel/v1/traces",
        headers=_langfuse_headers,
    ),
    "logfire": _Backend(
        default=_logfire_address,
        variables=("LOGFIRE_BASE_URL",),
        path="/v1/traces",
        metrics_path="/v1/metrics",
        logs_path="/v1/logs",
        headers=_logfire_headers,
    ),
    "mlflow": _Backend(
        default=lambda environ: "http://localhost:5000",
        variables=("MLFLOW_TRACKING_URI",),
        path="/v1/traces",
        headers=_mlflow_headers,
    ),
    "opik": _Backend(
        default=lambda environ: "https://www.comet.com/opik/api",
        variables=("OPIK_URL_OVERRIDE",),
        path="/v1/private/otel/v1/traces",
        headers=_opik_headers,
    ),
    "phoenix": _Backend(
        default=lambda environ: "http://localhost:6006",
        variables=("PHOENIX_COLLECTOR_ENDPOINT",),
        path="/v1/traces",
        headers=_phoenix_headers,
        resource=_phoenix_project,
    ),
}
"""The backends by name. The table in the guide says when each was checked, and against what."""
