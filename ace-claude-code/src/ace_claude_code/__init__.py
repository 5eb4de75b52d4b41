"""ACE for Claude Code: sessions that learn from earlier sessions. Nothing is imported before it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace_claude_code.binary import ClaudeNotFoundError, find_claude
    from ace_claude_code.execute import ClaudeCodeExecuteStep, ClaudeUsageError
    from ace_claude_code.records import TranscriptError
    from ace_claude_code.result import ClaudeCodeResult
    from ace_claude_code.to_trace import ClaudeCodeToTrace, transcript_to_trace, transcript_to_turn_traces

__all__ = [
    "ClaudeCodeExecuteStep",
    "ClaudeCodeResult",
    "ClaudeCodeToTrace",
    "ClaudeNotFoundError",
    "ClaudeUsageError",
    "TranscriptError",
    "find_claude",
    "transcript_to_trace",
    "transcript_to_turn_traces",
]

_HOMES = {
    "ClaudeCodeExecuteStep": "execute",
    "ClaudeCodeResult": "result",
    "ClaudeCodeToTrace": "to_trace",
    "ClaudeNotFoundError": "binary",
    "ClaudeUsageError": "execute",
    "TranscriptError": "records",
    "find_claude": "binary",
    "transcript_to_trace": "to_trace",
    "transcript_to_turn_traces": "to_trace",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
