"""ACE for OpenClaw: agents that learn from their stored sessions.

Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_openclaw.learning_report import LearningReport
    from ace_openclaw.reading.session import SessionReadError, StoredSession
    from ace_openclaw.reading.sources import read_session, read_sessions
    from ace_openclaw.runner import OpenClaw
    from ace_openclaw.to_trace import OpenClawToTrace, OpenClawToTraceStep, events_to_trace, events_to_turn_traces

__all__ = [
    "LearningReport",
    "OpenClaw",
    "OpenClawToTrace",
    "OpenClawToTraceStep",
    "SessionReadError",
    "StoredSession",
    "events_to_trace",
    "events_to_turn_traces",
    "read_session",
    "read_sessions",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "LearningReport": "learning_report",
        "OpenClaw": "runner",
        "OpenClawToTrace": "to_trace",
        "OpenClawToTraceStep": "to_trace",
        "SessionReadError": "reading.session",
        "StoredSession": "reading.session",
        "events_to_trace": "to_trace",
        "events_to_turn_traces": "to_trace",
        "read_session": "reading.sources",
        "read_sessions": "reading.sources",
    },
)
