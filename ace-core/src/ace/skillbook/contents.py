"""What a file or a store holds of a book: skills in order, decisions, the counter."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from ace.skill import SimilarityDecision, Skill, similarity_pair
from ace.skillbook.identity import citable_ids, is_citable
from ace.skillbook.state import BookState

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class BookContents:
    """A book between its state in memory and a format."""

    skills: list[Skill] = field(default_factory=list)
    decisions: dict[tuple[str, str], SimilarityDecision] = field(default_factory=dict)
    next_id: int = 1
    ignored_fields: tuple[str, ...] = ()
    """Fields of a foreign file that have no place in a skillbook: such a file is not saved over."""


def with_citable_ids(contents: BookContents) -> BookContents:
    """Return the contents with new ids for skills whose ids could not be cited, or would break the lines of a prompt.

    What refers to such an id follows it. A warning names the old and the new ids.
    """
    ids = [skill.id for skill in contents.skills]
    # One look at all of them together: nearly every book has nothing to rename.
    if all(ids) and is_citable("".join(["-", *ids])):
        return contents
    renamed = citable_ids(ids)
    changes = ", ".join(f"{old!r} is now {new!r}" for old, new in renamed.items())
    logger.warning("Ids that cannot be cited were changed: %s", changes)
    skills = [
        skill.replace(
            id=renamed.get(skill.id, skill.id),
            merged_into=None if skill.merged_into is None else renamed.get(skill.merged_into, skill.merged_into),
        )
        for skill in contents.skills
    ]
    decisions = {
        similarity_pair(renamed.get(first, first), renamed.get(second, second)): decision
        for (first, second), decision in contents.decisions.items()
    }
    return replace(contents, skills=skills, decisions=decisions)


def state_from(contents: BookContents) -> BookState:
    """Return a book with these contents."""
    state = BookState()
    state.fill(contents.skills)
    state.decisions = dict(contents.decisions)
    state.next_id = state.id_floor = contents.next_id
    return state
