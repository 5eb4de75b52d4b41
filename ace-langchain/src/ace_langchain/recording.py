"""`Recording`: what was seen of one run."""

from __future__ import annotations

from dataclasses import dataclass

from ace.traces import TraceStep
from ace_langchain.messages import PlainMessage
from ace_langchain.result import ToolUse

__all__ = ["Recording"]


@dataclass(frozen=True)
class Recording:
    """What a recorder has seen."""

    steps: tuple[TraceStep, ...]
    """Everything, in order."""
    tool_uses: tuple[ToolUse, ...]
    """The uses of tools."""
    answers: tuple[PlainMessage, ...]
    """What the models answered."""
    usage: dict[str, int]
    """Model calls, tool calls and tokens."""
