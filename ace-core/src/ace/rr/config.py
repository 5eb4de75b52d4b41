"""`RRConfig`, the limits and settings of a reflection, and `ReflectionLimitError`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ace._internal.arguments import instance_of, whole_number
from ace.protocols.errors import UnusableAnswerError

__all__ = ["RRConfig", "ReflectionLimitError"]

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class RRConfig:
    """The limits and settings of one reflection.

    Raises:
        TypeError: A field that must be a text or a bool has another type.
        ValueError: A number is invalid or out of range; the message names the field.

    Example:
        >>> RRConfig(max_iterations=10).max_llm_calls
        30
        >>> RRConfig(max_iterations=0)
        Traceback (most recent call last):
        ...
        ValueError: RRConfig.max_iterations must be at least 1, got 0
    """

    max_iterations: int = 20
    """The maximum number of turns."""
    timeout: float = 30.0
    """The maximum time of one execution of code, in seconds. The time of sub-questions does not count."""
    max_llm_calls: int = 30
    """The maximum number of model calls, including sub-questions."""
    max_tokens: int = 500_000
    """Once the calls have used this many tokens, no further call is made, except for one final turn."""
    max_cost: float | None = None
    """The same limit in US dollars; None for no limit. Calls without a known price are not counted."""
    max_context_chars: int = 50_000
    """The maximum length of a conversation, and of a sub-question, in characters."""
    max_output_chars: int = 20_000
    """The maximum length of the output of one execution, in characters."""
    max_memory: int | None = None
    """The maximum memory of a session, in bytes. None means 64 MiB and five times the size of the trace, at most
    256 MiB."""
    enable_subagent: bool = True
    """Whether the session has `ask_llm` and `ask_llm_many`."""
    enable_llm_query: bool = True
    """Whether the session has `llm_query`."""
    subagent_model: str | None = None
    """The model string for sub-questions; None means that of the client."""
    subagent_max_tokens: int = 8192
    """The maximum length of the answer to a sub-question, in tokens."""
    subagent_temperature: float = 0.3
    """The sampling temperature for sub-questions."""
    subagent_system_prompt: str | None = None
    """The system message for sub-questions; None means the built-in one."""
    enable_fallback_synthesis: bool = True
    """Whether one last call asks for the findings when a limit is reached."""

    def __post_init__(self) -> None:
        smallest = {"max_context_chars": 2000, "max_output_chars": 100, "max_memory": _MEBIBYTE}
        counts = ("max_iterations", "max_llm_calls", "max_tokens", "subagent_max_tokens", *smallest)
        for name in counts:
            if name != "max_memory" or self.max_memory is not None:
                whole_number(f"RRConfig.{name}", getattr(self, name), least=smallest.get(name, 1))
        _number("timeout", self.timeout, above=0)
        if self.max_cost is not None:
            _number("max_cost", self.max_cost, above=0)
        _number("subagent_temperature", self.subagent_temperature, least=0)
        for name in ("enable_subagent", "enable_llm_query", "enable_fallback_synthesis"):
            instance_of(f"RRConfig.{name}", getattr(self, name), bool)
        for name in ("subagent_model", "subagent_system_prompt"):
            value = getattr(self, name)
            if value is not None:
                instance_of(f"RRConfig.{name}", value, str)
                if not value.strip():
                    raise ValueError(f"RRConfig.{name} must not be empty; use None for the default")


def _number(name: str, value: object, *, above: float = -math.inf, least: float = -math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"RRConfig.{name} must be a number, got {value!r}")
    if not math.isfinite(value) or value <= above or value < least:
        bound = f"above {above:g}" if above > -math.inf else f"at least {least:g}"
        raise ValueError(f"RRConfig.{name} must be {bound}, got {value!r}")


class ReflectionLimitError(UnusableAnswerError):
    """A reflection reached a limit before the model submitted a usable result.

    Attributes:
        iterations: The number of turns.
        calls: The number of model calls, including sub-questions.

    Example:
        >>> error = ReflectionLimitError("no code in the answer", iterations=3, calls=4)
        >>> str(error)
        'Reflector: no reflection after 3 turns and 4 model calls: no code in the answer'
    """

    def __init__(self, problem: str, *, iterations: int, calls: int, raw_answers: Sequence[str] = ()) -> None:
        super().__init__(problem, raw_answers=raw_answers, role="Reflector")
        turns = "1 turn" if iterations == 1 else f"{iterations} turns"
        made = "1 model call" if calls == 1 else f"{calls} model calls"
        self.args = (f"Reflector: no reflection after {turns} and {made}: {problem}",)
        self.iterations = iterations
        self.calls = calls
