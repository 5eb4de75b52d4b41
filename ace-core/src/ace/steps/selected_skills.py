"""The part of a skillbook that was chosen for one question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

from ace.context import SkillbookView

if TYPE_CHECKING:
    from ace.protocols.skillbook import SkillbookReader
    from ace.skill import Skill
    from ace.skillbook import Skillbook

    Retrieval = Callable[[str, SkillbookReader], Sequence[Skill]]

__all__ = ["Retrieval", "SelectedSkills"]


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

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the chosen skill with this id, or None."""
        return self._chosen.get(skill_id)

    def skills(self, include_invalid: bool = False) -> list[Skill]:
        """Return the chosen skills."""
        return list(self._chosen.values())

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
        return book
