"""What roles read of a skillbook. `Skillbook` and `SkillbookView` both have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.skill import Skill

    Retrieval = Callable[[str, "SkillbookReader"], Sequence[Skill]]
    """Chooses the skills that an agent gets to see with a question."""

__all__ = ["SkillbookReader"]


@runtime_checkable
class SkillbookReader(Protocol):
    """Read access to skills. Inheriting from this class is not necessary."""

    def as_prompt(self, *, budget_tokens: int | None = None, query: str | None = None) -> str:
        """Return the active skills as text for a model.

        Args:
            budget_tokens: The most tokens that the text may take; None takes all skills.
            query: What the skills are needed for; the most relevant ones come first.
        """
        ...

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the skill with this id, or None."""
        ...

    def skills(self, include_invalid: bool = False) -> Sequence[Skill]:
        """Return the skills in the order of the book."""
        ...

    def stats(self) -> Mapping[str, Any]:
        """Return the numbers of sections, skills and tags."""
        ...
