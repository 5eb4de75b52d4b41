"""Reads exports of OpenTelemetry spans as traces: OTLP JSON of applications that call models, tools and agents."""

from ace.otlp.documents import parts_of, recognise, records_in
from ace.otlp.to_trace import OtlpToTrace, spans_to_trace

__all__ = ["OtlpToTrace", "parts_of", "recognise", "records_in", "spans_to_trace"]
