"""The result of one run of a chain, an agent or a graph."""

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
    """The result of one run of a chain, an agent or a graph, successful or not.

    Example:
        >>> result = LangChainResult("2+2?", "4", "simple", success=True)
        >>> LangChainResult.from_dict(result.to_dict()) == result
        True
    """

    task: str
    """The task, without the skills."""
    output: str
    """The answer as text; empty without an answer."""
    result_type: ResultType
    """The kind of runnable: `simple` (any Runnable), `agent` (an AgentExecutor), `langgraph`; `error` if it raised."""
    success: bool | None
    """Whether the run ended with an answer; None if a record does not contain this, or if the run waits."""
    error: str | None = None
    """The error of a failed run."""
    intermediate_steps: tuple[ToolUse, ...] = ()
    """The uses of tools, in order."""
    messages: tuple[PlainMessage, ...] = ()
    """The conversation of a graph, otherwise the answers of the models."""
    raw_result: object = field(default=None, repr=False, compare=False)
    """The return value of the runnable; None if it raised."""
    failed_at: str = ""
    """The part that failed, such as `tools/divide`; empty if none did."""
    steps: tuple[TraceStep, ...] = field(default=(), repr=False)
    """Everything that happened, in order: thoughts, messages, calls, results, failures."""
    context: str = ""
    """The conversation before the task."""
    skill_ids: tuple[str, ...] = ()
    """The ids of the skills that the models cited."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The numbers of model calls, tool calls and tokens, as far as they are reported."""
    duration_seconds: float = 0.0
    """The duration of the run."""
    thread_id: str = ""
    """The thread of a graph with a checkpointer, to resume it."""
    waits_for: str = ""
    """The question of a graph that interrupted itself; empty otherwise."""
    feedback: str = ""
    """The feedback of people or evaluators, if a record contains it."""

    def to_dict(self) -> dict[str, object]:
        """Return all fields except the raw result as JSON-compatible data."""
        stored = asdict(replace(self, raw_result=None))
        del stored["raw_result"]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in stored.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> LangChainResult:
        """Read what `to_dict` returned.

        Args:
            stored: The dict; fields of a newer version are ignored.

        Raises:
            ValueError: A required field is missing.
        """
        names = cls.__dataclass_fields__
        missing = [name for name in ("task", "output", "result_type", "success") if name not in stored]
        if missing:
            raise ValueError(f"this is not a stored LangChainResult: it lacks {', '.join(map(repr, missing))}")
        fields = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items() if name in names}
        return cls(**fields)  # type: ignore[arg-type]  # a stored dict has the types that to_dict gave it
