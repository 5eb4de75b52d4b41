"""Which skills of a book have a new text since a moment, at a cost that does not depend on the size of the book."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, final

from ace.skill import Skill

__all__ = ["BookMark", "TextChanges"]

_MOST: Final = 4096
"""How many changes are kept. Changes before these are not known any more."""


class BookMark(NamedTuple):
    """A moment in the life of a skillbook; `Skillbook.mark` returns it."""

    version: int | None
    """The version of its store; None without a store."""
    changes: tuple[int, int] | None = None
    """How many changes the object had seen; None for a mark that another process has made."""


@final
class TextChanges:
    """The ids of the skills that got another text or section, or came or went. It is not thread-safe.

    Example:
        >>> from ace.skill import Skill
        >>> changes = TextChanges()
        >>> before = changes.count
        >>> changes.note(None, Skill("maths-00001", "maths", "Check the units."))
        >>> changes.since(before)
        frozenset({'maths-00001'})
    """

    def __init__(self) -> None:
        self._ids: deque[str] = deque(maxlen=_MOST)
        self.count = 0
        """How many changes there were."""

    def note(self, before: Skill | None, after: Skill | None) -> None:
        """Note a change, unless the skill says the same as before.

        Args:
            before: The skill before the change; None if there was none.
            after: The skill now; None if it is gone.
        """
        if _said(before) == _said(after):
            return
        changed = after if before is None else before
        assert changed is not None
        self._ids.append(changed.id)
        self.count += 1

    def since(self, count: int) -> frozenset[str] | None:
        """Return the ids of the skills that have changed since there were so many changes; None if it is not known.

        Args:
            count: An earlier `count`.
        """
        later = self.count - count
        if later > len(self._ids):
            return None
        return frozenset(self._ids[-place] for place in range(1, later + 1))


def _said(skill: Skill | None) -> tuple[str, str] | None:
    return None if skill is None or not skill.is_active else (skill.section, skill.content)
