"""`ace otel`: check the connection to an OpenTelemetry collector."""

from __future__ import annotations

import os
import ssl
import time
import urllib.error
import urllib.request
from typing import Annotated, Final

from cyclopts import App, Parameter

from ace.integrations import DONE, WITH_FAILURES, UsageError, print_json, print_text

__all__ = ["app"]

app = App(
    name="otel",
    help="Check the connection to an OpenTelemetry collector. The options --otel [BACKEND] and --otel-content of all "
    "commands send their spans there.",
)

_SECONDS: Final = 10.0
_MOST_SHOWN: Final = 200


@app.command
def check(backend: str = "", /, *, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> int:
    """Send one span, and report whether it was received.

    Exit codes: 0 the span was received, 1 it was lost, 2 wrong usage.

    For example:

        ace otel check
        ace otel check phoenix

    Args:
        backend: langfuse, logfire, mlflow, opik or phoenix; by default the collector of the OTEL_... variables.
        as_json: Print the result as one JSON object.
    """
    from ace_otel.backends import destination

    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        raise UsageError("OTEL_SDK_DISABLED is set, so nothing is sent; unset it")
    target = destination(backend, os.environ)
    started = time.monotonic()
    problem = _problem_of_post(target.traces, dict(target.headers), _one_span(dict(target.resource)))
    seconds = time.monotonic() - started
    if as_json:
        print_json({"received": not problem, "address": target.traces, "problem": problem, "seconds": seconds})
    elif problem:
        print_text(f"lost: {target.traces} did not accept the span: {problem}")
    else:
        print_text(f"received: {target.traces} accepted the span after {seconds * 1000:.0f} ms")
    return WITH_FAILURES if problem else DONE


def _one_span(resource: dict[str, str]) -> bytes:
    """Return the body of a request with one span."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource

    from ace_otel.spans import check_span

    span = check_span(Resource.create({"service.name": "ace", **resource}))
    request: bytes = encode_spans([span]).SerializeToString()
    return request


def _problem_of_post(address: str, headers: dict[str, str], body: bytes) -> str:
    """Post a request, and return why its span was not received; empty if it was.

    The exporter of OpenTelemetry treats every status from 200 to 399 as a success; this reads the answer instead.
    """
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    sent = {**headers, "content-type": "application/x-protobuf", "user-agent": "ace-otel"}
    certificate = os.environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE") or None
    try:
        request = urllib.request.Request(address, data=body, headers=sent, method="POST")
        context = ssl.create_default_context(cafile=certificate) if address.startswith("https:") else None
        with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:
            kind, content = answer.headers.get_content_type(), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            said = " ".join(error.read(_MOST_SHOWN).decode("utf-8", "replace").split())
        return f"status {error.code} {error.reason}" + (f": {said}" if said else "")
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, ValueError) as error:
        return str(error)
    if kind == "application/json" or not content:
        return ""
    if kind != "application/x-protobuf":
        return f"it answered with {kind}, so this is not the address of an OTLP receiver"
    try:
        rejected = ExportTraceServiceResponse.FromString(content).partial_success
    except DecodeError:
        return "its answer is not one of an OTLP receiver"
    return f"it rejected the span: {rejected.error_message}" if rejected.rejected_spans else ""
