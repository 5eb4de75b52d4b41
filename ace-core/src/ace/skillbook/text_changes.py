"""Tracks which skills of a book are added, removed or reworded, at a cost independent of the size of the book."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, final

from ace.skill import Skill

__all__ = ["BookMark", "TextChanges"]

_MOST: Final = 4096
"""The number of changes to remember; older ones are forgotten."""


class BookMark(NamedTuple):
    """A point in the history of a skillbook, as returned by `Skillbook.mark`."""

    version: int | None
    """The version of its store; None without a store."""
    changes: tuple[int, int] | None = None
    """The counts of changes in this process; None for a mark that was set in another process."""


@final
class TextChanges:
    """The ids of skills that were added or removed, or whose text or section has changed. Not thread-safe.

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
        """The number of changes so far."""

    def note(self, before: Skill | None, after: Skill | None) -> None:
        """Record a change, unless neither the text nor the section differs.

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
        """Return the ids of the skills that have changed since an earlier count; None if these changes were forgotten.

        Args:
            count: An earlier `count`.
        """
        later = self.count - count
        if later > len(self._ids):
            return None
        return frozenset(self._ids[-place] for place in range(1, later + 1))


def _said(skill: Skill | None) -> tuple[str, str] | None:
    return None if skill is None or not skill.is_active else (skill.section, skill.content)
