"""The context of the learning core, and the read-only view of a skillbook that it carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ace.pipeline import StepContext

if TYPE_CHECKING:
    from ace.outputs import AgentOutput, ReflectorOutput
    from ace.skill import Skill
    from ace.skillbook.reading import ReadableSkillbook
    from ace.updates import UpdateBatch

__all__ = ["ACESample", "ACEStepContext", "SkillbookView"]


@runtime_checkable
class ACESample(Protocol):
    """What steps read of a sample. `ace.environments.Sample` has it; nobody has to inherit."""

    @property
    def question(self) -> str:
        """The question or task."""

    @property
    def context(self) -> str:
        """Whatever the answer may draw on."""

    @property
    def ground_truth(self) -> str | None:
        """The right answer, where it is known."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Anything that the caller wants to keep with the sample."""


class SkillbookView:
    """What may be read of a skillbook. It shows the book as it is now, and has no method that writes.

    Args:
        skillbook: The book, or a view of it.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> book = Skillbook()
        >>> view = SkillbookView(book)
        >>> skill = book.add_skill("maths", "Check the units.")
        >>> view, view.get_skill(skill.id).content
        (SkillbookView(1 skills), 'Check the units.')
    """

    __slots__ = ("__weakref__", "_skillbook")

    def __init__(self, skillbook: ReadableSkillbook | SkillbookView) -> None:
        self._skillbook = skillbook

    def as_prompt(self, **options: Any) -> str:
        """Return the active skills as text for a prompt.

        Args:
            **options: Those of `Skillbook.as_prompt`: budget_tokens, query, format and so on.
        """
        return self._skillbook.as_prompt(**options)

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the skill with this id, active or not, or None."""
        return self._skillbook.get_skill(skill_id)

    def skills(self, include_invalid: bool = False) -> list[Skill]:
        """Return the skills in the order in which they were added.

        Args:
            include_invalid: Whether softly removed and merged skills are in the list.
        """
        return self._skillbook.skills(include_invalid)

    def stats(self) -> dict[str, int | dict[str, int]]:
        """Return the number of sections and active skills, and the sums of their counters."""
        return self._skillbook.stats()

    def __len__(self) -> int:
        return len(self._skillbook)

    def __bool__(self) -> bool:
        """Return True, for the view of an empty book too."""
        return True

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skillbook)

    def __repr__(self) -> str:
        return f"SkillbookView({len(self)} skills)"


@dataclass(frozen=True)
class ACEStepContext(StepContext):
    """What one sample carries through a learning pipeline.

    Example:
        >>> ctx = ACEStepContext(sample="2+2?", epoch=2)
        >>> ctx.replace(trace={"answer": "4"}).trace, ctx.trace
        ({'answer': '4'}, None)
    """

    sample: Any = None
    """The input: an `ACESample` in a live run, else whatever the runner was given."""
    skillbook: SkillbookView | None = None
    """The skills, to read."""
    trace: object = None
    """The record of the execution, of any type."""
    agent_output: AgentOutput | None = None
    """The answer of the agent."""
    reflection: ReflectorOutput | None = None
    """What the reflector found."""
    skill_manager_output: UpdateBatch | None = None
    """The operations that the skill manager wants."""
    epoch: int = 1
    """From 1."""
    total_epochs: int = 1
    """How many epochs the run has."""
    step_index: int = 0
    """The place of the sample in its epoch, from 1."""
    total_steps: int | None = None
    """How many samples an epoch has; None where that is not known."""
    global_sample_index: int = 0
    """The place of the sample in the run, over all epochs, from 1."""
