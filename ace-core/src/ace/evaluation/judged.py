"""One answer with its judgement, as it is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["JudgedAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """What an agent answered to a sample, and what that was worth.

    Example:
        >>> answer = JudgedAnswer(sample_id="a", question="2+2?", correct=1.0, answer="4")
        >>> JudgedAnswer.from_dict(answer.to_dict()) == answer
        True
    """

    sample_id: str
    """The name of the sample."""
    question: str
    """The question."""
    repeat: int = 1
    """Which of the attempts at the sample this is, from 1."""
    correct: float
    """From 0 (wrong) to 1 (right). A sample that failed is wrong."""
    answer: str = ""
    """The answer; empty if the sample failed."""
    ground_truth: str | None = None
    """The right answer, where it is known."""
    feedback: str = ""
    """What the environment said."""
    error: str | None = None
    """What went wrong, if the sample failed."""
    calls: int = 0
    """How often a model was asked."""
    input_tokens: int = 0
    """The tokens of the prompts."""
    output_tokens: int = 0
    """The tokens of the answers."""
    cost: float | None = None
    """US dollars; None where a price is not known."""
    seconds: float = 0.0
    """How long it took to answer and judge."""
    shown: tuple[str, ...] = ()
    """The ids of the skills that the agent could see."""
    cited: tuple[str, ...] = ()
    """The ids of those that its reasoning names."""

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= 1 or math.isnan(self.correct):
            raise ValueError(f"correct must be a share from 0 to 1, got {self.correct!r}")

    @property
    def is_right(self) -> bool:
        """Whether the answer is right as a whole."""
        return self.correct == 1

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {**asdict(self), "shown": list(self.shown), "cited": list(self.cited)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JudgedAnswer:
        """Read what `to_dict` made.

        Raises:
            ValueError: A field is missing or unknown, or has an invalid value.
        """
        known = {field.name for field in fields(cls)}
        if unknown := data.keys() - known:
            raise ValueError(f"a judged answer has no field {min(unknown)!r}")
        try:
            return cls(**{**data, "shown": tuple(data.get("shown", ())), "cited": tuple(data.get("cited", ()))})
        except TypeError as error:
            raise ValueError(f"this is not a judged answer: {error}") from error
