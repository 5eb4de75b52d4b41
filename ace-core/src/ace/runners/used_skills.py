"""How often each skill was shown to agents and cited by them, over all runs that a store knows of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ace.runners.run_record import recorded_runs

if TYPE_CHECKING:
    from ace.skillbook import Skillbook
    from ace.skillbook.store import SkillbookStore

__all__ = ["SkillUse", "skill_use"]


class SkillUse(NamedTuple):
    """The use of one skill in the samples that agents answered."""

    cited: int
    """How many answers cite it."""
    chosen: int
    """For how many samples a retrieval chose it."""
    whole_book: int
    """How many samples saw the whole book; it is the same for all skills, also for those that came later."""


def skill_use(skillbook: Skillbook) -> Mapping[str, SkillUse]:
    """Return the use of each active skill. One that was shown often and never cited can go.

    Args:
        skillbook: The book. One without a store keeps no notes of its samples, so nothing is known of it.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> skill_use(Skillbook())
        {}
    """
    if skillbook.store is None:
        return {}
    cited: Counter[str] = Counter()
    chosen: Counter[str] = Counter()
    whole_book = 0
    for note in _notes(skillbook.store):
        if "cited" in note:
            cited.update(note["cited"])
            chosen.update(note.get("shown", ()))
            whole_book += "shown" not in note
    return {skill.id: SkillUse(cited[skill.id], chosen[skill.id], whole_book) for skill in skillbook.skills()}


def _notes(store: SkillbookStore) -> Iterator[dict[str, Any]]:
    for run_id in recorded_runs(store):
        for row in store.progress(run_id):
            yield json.loads(row.note)
