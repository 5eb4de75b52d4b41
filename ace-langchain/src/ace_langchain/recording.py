"""`Recording`, the recorded events of one run."""

from __future__ import annotations

from dataclasses import dataclass

from ace.traces import TraceStep
from ace_langchain.messages import PlainMessage
from ace_langchain.result import ToolUse

__all__ = ["Recording"]


@dataclass(frozen=True)
class Recording:
    """The recorded events of one run."""

    steps: tuple[TraceStep, ...]
    """Everything, in order."""
    tool_uses: tuple[ToolUse, ...]
    """The uses of tools."""
    answers: tuple[PlainMessage, ...]
    """The answers of the models."""
    usage: dict[str, int]
    """The numbers of model calls, tool calls and tokens."""
