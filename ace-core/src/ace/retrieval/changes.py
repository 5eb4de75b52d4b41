"""Compares two lists of skills, for rankers that keep the data computed for the first one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import is_not
from typing import Final, NamedTuple

from ace.skill import Skill

__all__ = ["Differences", "differences"]

_AT_ONCE: Final = 1024
_FEW: Final = 1000
_FEW_REMOVED: Final = 32
"""After each removed skill, the lists are aligned again."""


class Differences(NamedTuple):
    """The difference between two lists of skills: changes in place, removals, and additions at the end."""

    removed: Sequence[Skill]
    changed: Sequence[Skill]
    """The new values of changed skills."""
    added: Sequence[Skill]


def differences(before: Sequence[Skill], after: Sequence[Skill]) -> Differences | None:
    """Return the difference between two lists, or None if it has more than a few steps.

    Unchanged skills only cost a comparison of their identities, in C.

    Args:
        before: The skills, each with its own id.
        after: The same later. A skill that moved is removed and added.

    Example:
        >>> one, two, three = (Skill(f"a-0000{number}", "a", "Check it.") for number in (1, 2, 3))
        >>> better = three.replace(helpful=1)
        >>> found = differences([one, two, three], [one, better, two])
        >>> [[skill.id for skill in part] for part in found]
        [['a-00002'], ['a-00003'], ['a-00002']]
    """
    removed: list[Skill] = []
    changed: list[Skill] = []
    old = new = 0
    while len(removed) <= _FEW_REMOVED:
        size = min(len(before) - old, len(after) - new)
        misaligned = _compared(before[old : old + size], after[new : new + size], changed)
        if len(changed) > _FEW:
            return None
        if misaligned is None:
            removed += before[old + size :]
            added = after[new + size :]
            return Differences(removed, changed, added) if len(removed) + len(added) <= _FEW else None
        removed.append(before[old + misaligned])
        old, new = old + misaligned + 1, new + misaligned
    return None


def _compared(before: Sequence[Skill], after: Sequence[Skill], changed: list[Skill]) -> int | None:
    """Note the changed skills of two lists of the same length; return where their ids differ, if they do."""
    for start in range(0, len(before), _AT_ONCE):
        some, others = before[start : start + _AT_ONCE], after[start : start + _AT_ONCE]
        if some == others:
            continue
        for place in compress(range(len(some)), map(is_not, some, others)):
            if some[place].id != others[place].id:
                return start + place
            changed.append(others[place])
    return None
