"""The context of the learning core, and the read-only view of a skillbook that it carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

from ace.pipeline import StepContext

if TYPE_CHECKING:
    from ace.outputs import AgentOutput, ReflectorOutput
    from ace.skill import Skill
    from ace.skillbook import BookMark, Skillbook
    from ace.skillbook.frozen_copy import PromptParts
    from ace.updates import UpdateBatch

__all__ = ["ACESample", "ACEStepContext", "SelectedSkills", "SkillbookView"]


@runtime_checkable
class ACESample(Protocol):
    """The attributes of a sample that steps read, such as those of `ace.environments.Sample`. A protocol."""

    @property
    def question(self) -> str:
        """The question or task."""

    @property
    def context(self) -> str:
        """Additional text for the answer."""

    @property
    def ground_truth(self) -> str | None:
        """The correct answer, if it is known."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Additional data of the caller."""


class SkillbookView:
    """A read-only view of a skillbook, which always shows its current state.

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

    def __init__(self, skillbook: Skillbook | SkillbookView) -> None:
        self._skillbook = skillbook

    def as_prompt(self, **options: Any) -> str:
        """Return the active skills as text for a prompt.

        Args:
            **options: Those of `Skillbook.as_prompt`: budget_tokens, query, format and so on.
        """
        return self._skillbook.as_prompt(**options)

    def prompt_parts(self, query: str, budget_tokens: int) -> PromptParts:
        """Return the active skills in parts, as `Skillbook.prompt_parts` does."""
        return self._skillbook.prompt_parts(query, budget_tokens)

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the skill with this id, active or not, or None."""
        return self._skillbook.get_skill(skill_id)

    def skills(self, include_invalid: bool = False) -> list[Skill]:
        """Return the skills in the order in which they were added.

        Args:
            include_invalid: Whether to include removed and merged skills.
        """
        return self._skillbook.skills(include_invalid)

    def section_names(self) -> list[str]:
        """Return the names of the sections with active skills, in the order of the skillbook."""
        return self._skillbook.section_names()

    def stats(self) -> dict[str, int | dict[str, int]]:
        """Return the number of sections and active skills, and the sums of their counters."""
        return self._skillbook.stats()

    def judged_count(self) -> int:
        """Return how many active skills were judged helpful or harmful at least once."""
        return self._skillbook.judged_count()

    def mark(self) -> BookMark:
        """Return a mark of the current state, for `changed_since`."""
        return self._skillbook.mark()

    def changed_since(self, mark: BookMark) -> frozenset[str] | None:
        """Return the ids of the skills whose texts have changed since a mark, as `Skillbook.changed_since` does.

        Args:
            mark: A result of `mark`.
        """
        return self._skillbook.changed_since(mark)

    def __len__(self) -> int:
        return len(self._skillbook)

    def __bool__(self) -> bool:
        """Return True, even for the view of an empty book."""
        return True

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skillbook)

    def __repr__(self) -> str:
        return f"SkillbookView({len(self)} skills)"


@final
class SelectedSkills(SkillbookView):
    """A view that shows the chosen skills only; its `stats` are those of the whole book.

    Args:
        skillbook: The whole book.
        chosen: The skills to show, the most relevant one first.
    """

    __slots__ = ("_chosen",)

    def __init__(self, skillbook: SkillbookView, chosen: Sequence[Skill]) -> None:
        super().__init__(skillbook)
        self._chosen = {skill.id: skill for skill in chosen}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the chosen skills."""
        return tuple(self._chosen)

    def as_prompt(self, **options: Any) -> str:
        """Return the chosen skills as text for a model. The options are those of `Skillbook.as_prompt`."""
        return self._as_book().as_prompt(**options)

    def prompt_parts(self, query: str, budget_tokens: int) -> PromptParts:
        """Return the chosen skills as what fits the query: other questions get others, so nothing repeats."""
        from ace.skillbook.frozen_copy import PromptParts, plain_lines

        return PromptParts("", "", plain_lines(list(self._chosen.values())))

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the chosen skill with this id, or None."""
        return self._chosen.get(skill_id)

    def skills(self, include_invalid: bool = False) -> list[Skill]:
        """Return the chosen skills."""
        return list(self._chosen.values())

    def section_names(self) -> list[str]:
        """Return the names of the sections of the chosen skills."""
        return list(dict.fromkeys(skill.section for skill in self._chosen.values()))

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._chosen.values())

    def __repr__(self) -> str:
        return f"SelectedSkills({len(self)} skills)"

    def _as_book(self) -> Skillbook:
        from ace.skillbook.book import Skillbook  # only here: a retrieval is seldom used

        book = Skillbook()
        for skill in self._chosen.values():
            book.add_skill(skill.section, skill.content, skill.id, metadata=skill.counts())
            if skill.pinned:
                book.update_skill(skill.id, pinned=True)
        return book


@dataclass(frozen=True)
class ACEStepContext(StepContext):
    """The context of one sample in a learning pipeline.

    Example:
        >>> ctx = ACEStepContext(sample="2+2?", epoch=2)
        >>> ctx.replace(trace={"answer": "4"}).trace, ctx.trace
        ({'answer': '4'}, None)
    """

    sample: Any = None
    """The input: an `ACESample` in a live run, or else the input of the runner."""
    skillbook: SkillbookView | None = None
    """The skills, read-only."""
    trace: object = None
    """The record of the execution, of any type."""
    agent_output: AgentOutput | None = None
    """The answer of the agent."""
    further_answers: tuple[AgentOutput, ...] = ()
    """Further answers of the agent to the same question, for an environment that compares them."""
    reflection: ReflectorOutput | None = None
    """The output of the reflector."""
    skill_manager_output: UpdateBatch | None = None
    """The operations of the skill manager."""
    epoch: int = 1
    """The epoch, from 1."""
    total_epochs: int = 1
    """The number of epochs of the run."""
    step_index: int = 0
    """The position of the sample in its epoch, from 1."""
    total_steps: int | None = None
    """The number of samples in an epoch; None if it is not known."""
    global_sample_index: int = 0
    """The position of the sample in the run, over all epochs, from 1."""
