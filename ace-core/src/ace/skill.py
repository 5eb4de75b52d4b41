"""What a skillbook holds: skills, where they came from, and pairs judged to be kept apart.

All three are immutable. A change makes a new object, so a skill that was handed out never changes
under its reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TAGS = ("helpful", "harmful", "neutral")
"""The counters of a skill, and the only tags there are."""

ACTIVE = "active"
INVALID = "invalid"


@dataclass(frozen=True)
class InsightSource:
    """Where a skill was learned: its provenance.

    Example:
        >>> InsightSource("runs.jsonl#12", "Capital of France?").trace_id
        'runs.jsonl#12'
    """

    trace_id: str = ""
    """Identity of the trace: its place, or a hash of the raw record."""
    sample_question: str = ""
    """The question that the trace answers."""
    epoch: int = 0
    """The epoch in which it was learned, from 1; 0 where there is none."""
    step: int = 0
    """The place of the sample in its epoch, from 1; 0 where there is none."""
    integration: str = ""
    """The name of the runner or plugin that made the trace."""
    error_identification: str = ""
    """The error that the skill was learned from."""
    learning_text: str = ""
    """The learning of the reflector that became the skill."""

    def to_dict(self) -> dict[str, str | int]:
        """Return the fields as a dict, in a fixed order."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Skill:
    """One short strategy.

    Example:
        >>> skill = Skill("geography-00001", "geography", "Paris is the capital of France.", helpful=2)
        >>> skill.is_active, skill.counts()
        (True, {'helpful': 2, 'harmful': 0, 'neutral': 0})
    """

    id: str
    """The citable name, such as `geography-00001`."""
    section: str
    """The heading under which the skill stands."""
    content: str
    """The strategy itself."""
    helpful: int = 0
    """How often it was judged to have helped."""
    harmful: int = 0
    """How often it was judged to have done harm."""
    neutral: int = 0
    """How often it was used and made no difference."""
    justification: str | None = None
    """Why the skill was written."""
    evidence: str | None = None
    """What in the trace supports it."""
    created_at: str = ""
    """When it was added: ISO 8601, UTC."""
    updated_at: str = ""
    """When it was changed last: ISO 8601, UTC."""
    embedding: bytes | None = None
    """The vector of the content: float32, little endian; gone as soon as the content changes."""
    status: str = ACTIVE
    """`active`, or `invalid` after a soft removal."""
    sources: tuple[InsightSource, ...] = ()
    """Every trace that taught this skill, oldest first."""
    merged_into: str | None = None
    """The skill that took this one over, if it was merged away."""

    @property
    def is_active(self) -> bool:
        """Whether the skill is shown to agents."""
        return self.status == ACTIVE

    def counts(self) -> dict[str, int]:
        """Return the three counters by tag."""
        return {"helpful": self.helpful, "harmful": self.harmful, "neutral": self.neutral}

    def replace(self, **changes: object) -> Skill:
        """Return a copy with other values in the named fields.

        Raises:
            TypeError: If there is no field of that name.

        Example:
            >>> Skill("a-00001", "a", "old").replace(content="new").content
            'new'
        """
        fields = self.__dict__ | changes
        if len(fields) != len(self.__dict__):
            raise TypeError(f"a skill has no field {sorted(changes.keys() - self.__dict__.keys())}")
        return skill_from_fields(fields)


def skill_from_fields(fields: dict[str, object]) -> Skill:
    """Return a skill that takes over the dict, which holds every field and is not checked again.

    Four times faster than the constructor of a frozen dataclass, which sets field by field. For
    readers that checked the types already.
    """
    skill = object.__new__(Skill)
    object.__setattr__(skill, "__dict__", fields)
    return skill


def source_from_fields(fields: dict[str, object]) -> InsightSource:
    """Return a source that takes over the dict, as `skill_from_fields` does for a skill."""
    source = object.__new__(InsightSource)
    object.__setattr__(source, "__dict__", fields)
    return source


@dataclass(frozen=True)
class SimilarityDecision:
    """The judgement that two similar skills shall both stay."""

    decision: str = "KEEP"
    """The judgement; only `KEEP` stops the pair from being reported again."""
    reasoning: str = ""
    """Why the two are different."""
    decided_at: str = ""
    """When: ISO 8601, UTC."""
    similarity_at_decision: float = 0.0
    """The similarity of the pair when it was judged, from -1 to 1."""

    def to_dict(self) -> dict[str, str | float]:
        """Return the fields as a dict, in a fixed order."""
        return dict(self.__dict__)


def similarity_pair(first_id: str, second_id: str) -> tuple[str, str]:
    """Return the two ids in the order in which a pair is stored.

    Example:
        >>> similarity_pair("b-00002", "a-00001")
        ('a-00001', 'b-00002')
    """
    return (first_id, second_id) if first_id <= second_id else (second_id, first_id)


def join_sources(*groups: Iterable[InsightSource]) -> tuple[InsightSource, ...]:
    """Return all sources in order, each once."""
    return tuple(dict.fromkeys(source for group in groups for source in group))
