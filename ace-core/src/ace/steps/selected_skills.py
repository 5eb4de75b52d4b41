"""The part of a skillbook that was chosen for one question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from ace.protocols.skillbook import SkillbookReader
    from ace.skill import Skill

    Retrieval = Callable[[str, SkillbookReader], Sequence[Skill]]

__all__ = ["Retrieval", "SelectedSkills"]


@final
class SelectedSkills:
    """A reader that shows the chosen skills only.

    Args:
        skillbook: The whole book.
        chosen: The skills to show, the most relevant one first.
    """

    def __init__(self, skillbook: SkillbookReader, chosen: Sequence[Skill]) -> None:
        self._skillbook = skillbook
        self._chosen = {skill.id: skill for skill in chosen}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the chosen skills."""
        return tuple(self._chosen)

    def as_prompt(self, *, budget_tokens: int | None = None, query: str | None = None) -> str:
        """Return the chosen skills as text for a model. The arguments are those of `SkillbookReader`."""
        return self._as_book().as_prompt(budget_tokens=budget_tokens, query=query)

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the chosen skill with this id, or None."""
        return self._chosen.get(skill_id)

    def skills(self, include_invalid: bool = False) -> Sequence[Skill]:
        """Return the chosen skills."""
        return list(self._chosen.values())

    def stats(self) -> Mapping[str, Any]:
        """Return the numbers of the whole book."""
        return self._skillbook.stats()

    def _as_book(self) -> SkillbookReader:
        from ace.skillbook.book import Skillbook  # only here: a retrieval is seldom used

        book = Skillbook()
        for skill in self._chosen.values():
            book.add_skill(skill.section, skill.content, skill.id, metadata=skill.counts())
        return book
