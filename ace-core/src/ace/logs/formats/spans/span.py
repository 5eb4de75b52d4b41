"""What readers of tracing exports have in common: the spans of one trace, and what was said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from ace.logs.formats.spans.assessments import Assessment
from ace.logs.run import Step

__all__ = ["Span", "SpanKind", "Trace", "kind_of", "nanoseconds"]

SpanKind = Literal["model", "tool", "retriever", "agent", "evaluator", "other"]
"""What a span records."""

_KINDS: Final[Mapping[str, SpanKind | Literal["function"]]] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion", "llm", "chat_model"), "model"),
    **dict.fromkeys(("generation", "chat_completion"), "model"),
    **dict.fromkeys(("ai.generatetext.dogenerate", "ai.generateobject.dogenerate"), "model"),
    **dict.fromkeys(("ai.streamtext.dostream", "ai.streamobject.dostream"), "model"),
    **dict.fromkeys(("execute_tool", "tool", "ai.toolcall"), "tool"),
    **dict.fromkeys(("function", "span"), "function"),
    **dict.fromkeys(("retrieval", "retriever"), "retriever"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow", "agent", "workflow"), "agent"),
    **dict.fromkeys(("ai.generatetext", "ai.streamtext", "ai.generateobject", "ai.streamobject"), "agent"),
    **dict.fromkeys(("evaluator", "score", "scorer"), "evaluator"),
}
_SCALES: Final = ((1e8, 0), (1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000))
"""Below which number a time is none, in seconds, milliseconds or microseconds, and how many nanoseconds these are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span: a call of a model, of a tool or of another part of a program."""

    id: str
    parent: str = ""
    kind: SpanKind
    name: str
    start: int = 0
    """The time in nanoseconds since 1970; 0 if it is not known."""
    end: int = 0
    inputs: tuple[Step, ...] = ()
    """The messages in its input, which for models are the conversation so far."""
    outputs: tuple[Step, ...] = ()
    """The messages in its output, which for agents may be the whole conversation."""
    question: str = ""
    """Its input as text; of a tool, the arguments."""
    answer: str = ""
    """Its output as text; of a tool, the result."""
    error: str = ""
    """Why it failed; empty if it did not."""
    is_failed_result: bool = False
    """Whether it is a tool whose result says that it failed, although the span does not."""
    call_id: str = ""
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    assessments: tuple[Assessment, ...] = ()
    cut_values: int = 0
    """How many values were cut by a limit of the exporting program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The spans of one run, and what is known about all of it."""

    id: str
    spans: tuple[Span, ...]
    assessments: tuple[Assessment, ...] = ()
    truth: str = ""
    """The right answer, if the export has it."""
    rest: Mapping[str, object] = field(default_factory=dict)
    """Further facts, such as the id of the session."""


def kind_of(name: object) -> SpanKind | Literal["function"] | None:
    """Return the kind of span that a name in an export means; None if the name is unknown.

    A `function` may be anything that a program does.

    Args:
        name: The name, such as `execute_tool`, `LLM` or `GENERATION`.
    """
    return _KINDS.get(name.strip('" ').lower()) if isinstance(name, str) else None


def nanoseconds(value: Any) -> int:
    """Return a time as nanoseconds since 1970; 0 if it is none.

    Args:
        value: Seconds, milli-, micro- or nanoseconds, also as text, or a date in ISO 8601.
    """
    try:
        if isinstance(value, str) and not value.isdecimal():
            return round(datetime.fromisoformat(value.strip().replace(" UTC", "Z")).timestamp() * 1e6) * 1000
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return 0
        number = float(value) if isinstance(value, float) else int(value)
        scale = next((scale for limit, scale in _SCALES if number < limit), 1)
        return max(0, round(number * scale))
    except (ValueError, OverflowError):  # a number of thousands of digits, an infinite one, or a wrong date
        return 0
