"""The report of a run: failures, new skills, rejected changes and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Failure", "LeftOut", "ModelUse", "NewSkill", "ProofCounts", "RunReport", "SkillCounts", "place_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCounts:
    """What was done to the skillbook."""

    added: int
    updated: int
    tagged: int
    merged: int
    removed: int
    skipped: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What the model was asked, and what that cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced_calls: int = 0
    recorded_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofCounts:
    """What the proofs of skills have shown, and what they cost. Their calls are part of all calls of the run."""

    proven: int = 0
    """Skills, old and new, that answer the case of an input."""
    rewritten: int = 0
    """How many of these needed another text."""
    failing: int = 0
    """Skills that were kept although their case fails."""
    rejected: int = 0
    """Skills that were dropped: their case failed, or they broke another one."""
    not_judged: int = 0
    """Skills whose case could not be judged."""
    use: ModelUse = ModelUse()


@dataclass(frozen=True, slots=True)
class Failure:
    """A trace that was not learned from."""

    place: str
    reason: str
    stage: str
    """`input` if it could not be read, else the step that failed."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change that a model requested and that was rejected."""

    operation: str
    """Such as `ADD` or `TAG`."""
    skill: str
    """The id of the skill that it is about; empty where the model named none."""
    reason: str
    trace: str


@dataclass(frozen=True, slots=True)
class NewSkill:
    """A skill that this run added, with the traces that it came from."""

    id: str
    section: str
    content: str
    traces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The report at the end of a run."""

    read: int
    """Traces that were found."""
    learned: int
    """How often a trace was learned from; in several epochs more than there are traces."""
    already_learned: int
    """How many of them an earlier run had learned."""
    not_begun: int
    """How many were not started or not finished, because the run was stopped."""
    failures: Sequence[Failure]
    """What was not learned from: what could not be read first, then what failed in the run."""
    skills: SkillCounts
    new_skills: Sequence[NewSkill]
    left_out: Sequence[LeftOut]
    use: ModelUse
    proofs: ProofCounts = ProofCounts()

    @property
    def unreadable(self) -> int:
        """How many of the failures could not even be read."""
        return sum(failure.stage == "input" for failure in self.failures)


def place_of(trace_id: str) -> str:
    """Return the place in the name of a recorded trace.

    Example:
        >>> place_of("5575ae1c4f02063d@logs/a.jsonl#12")
        'logs/a.jsonl#12'
    """
    return trace_id.partition("@")[2] or trace_id
