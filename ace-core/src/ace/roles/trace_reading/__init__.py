"""Reads traces of any type for the reflector."""

from ace.roles.trace_reading.reader import StandardTrace, read_batch, read_trace, shown_names, traces_in_batch
from ace.roles.trace_reading.rendering import Section, fitted_sections, sections_as_text, sections_of

__all__ = [
    "Section",
    "StandardTrace",
    "fitted_sections",
    "read_batch",
    "read_trace",
    "sections_as_text",
    "sections_of",
    "shown_names",
    "traces_in_batch",
]
