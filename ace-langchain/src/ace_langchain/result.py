"""What one run of a chain, an agent or a graph left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypedDict

from ace.traces import TraceStep
from ace_langchain.messages import PlainMessage

__all__ = ["LangChainResult", "ResultType", "ToolUse"]

ResultType = Literal["simple", "agent", "langgraph", "error"]


class ToolUse(TypedDict):
    """One use of a tool."""

    tool: str
    input: object
    output: str
    error: str | None


@dataclass(frozen=True)
class LangChainResult:
    """What one run of a chain, an agent or a graph left behind, also where it failed.

    Example:
        >>> result = LangChainResult("2+2?", "4", "simple", success=True)
        >>> LangChainResult.from_dict(result.to_dict()) == result
        True
    """

    task: str
    """What was asked, without the skills."""
    output: str
    """The answer as text; empty if there is none."""
    result_type: ResultType
    """What ran: `simple` (any Runnable), `agent` (an AgentExecutor), `langgraph`; or `error` if it broke off."""
    success: bool | None
    """Whether it came to its end with an answer; None of a record that does not tell, and of a run that waits."""
    error: str | None = None
    """What went wrong."""
    intermediate_steps: tuple[ToolUse, ...] = ()
    """The uses of tools, in order."""
    messages: tuple[PlainMessage, ...] = ()
    """The conversation of a graph, else what the models said."""
    raw_result: object = field(default=None, repr=False, compare=False)
    """What the runnable returned; None if it broke off."""
    failed_at: str = ""
    """The part that broke off, such as `tools/divide`; empty if none did."""
    steps: tuple[TraceStep, ...] = field(default=(), repr=False)
    """Everything that happened, in order: thoughts, messages, calls, results, failures."""
    context: str = ""
    """The conversation before the task."""
    skill_ids: tuple[str, ...] = ()
    """The skills that the models cited in their own words."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Model calls, tool calls and tokens, as far as they are reported."""
    duration_seconds: float = 0.0
    """How long it took."""
    thread_id: str = ""
    """The thread of a graph with a checkpointer, to resume it."""
    waits_for: str = ""
    """What a graph asks that has interrupted itself; empty if it has not."""
    feedback: str = ""
    """What people or evaluators said of it, where a record tells it."""

    def to_dict(self) -> dict[str, object]:
        """Return everything but the raw result, as JSON can hold it."""
        stored = asdict(replace(self, raw_result=None))
        del stored["raw_result"]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in stored.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> LangChainResult:
        """Read what `to_dict` returned.

        Args:
            stored: The dict; fields of a newer version are ignored.

        Raises:
            ValueError: It lacks a field that every result has.
        """
        names = cls.__dataclass_fields__
        missing = [name for name in ("task", "output", "result_type", "success") if name not in stored]
        if missing:
            raise ValueError(f"this is not a stored LangChainResult: it lacks {', '.join(map(repr, missing))}")
        fields = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items() if name in names}
        return cls(**fields)  # type: ignore[arg-type]  # a stored dict has the types that to_dict gave it
