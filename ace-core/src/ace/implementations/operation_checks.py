"""What makes a batch of operations unusable before anything of it is applied."""

from __future__ import annotations

from ace.protocols.skillbook import SkillbookReader
from ace.skill import TAGS
from ace.updates import OPERATION_TYPES, UpdateBatch, UpdateOperation

__all__ = ["problem_with_batch"]

_LONGEST_CONTENT = 4000
_LONGEST_SECTION = 200
_REMOVALS_ALWAYS_ALLOWED = 3
_LARGEST_REMOVED_SHARE = 0.25


def problem_with_batch(batch: UpdateBatch, skillbook: SkillbookReader) -> str | None:
    """Say what makes a batch unusable, or return None.

    A batch of which only some operations cannot be applied is usable: those are skipped and reported
    when it is applied.

    Args:
        batch: What the model wants.
        skillbook: The skills as they are.
    """
    problem = _problem_with_whole(batch, skillbook)
    if problem is not None or not batch.operations:
        return problem
    problems = [_problem_with_operation(operation, skillbook) for operation in batch.operations]
    found = [problem for problem in problems if problem is not None]
    return "; ".join(dict.fromkeys(found)) if len(found) == len(problems) else None


def _problem_with_whole(batch: UpdateBatch, skillbook: SkillbookReader) -> str | None:
    for operation in batch.operations:
        length = len(operation.content or "")
        if length > _LONGEST_CONTENT:
            return f"a skill is one short strategy of at most {_LONGEST_CONTENT} characters, not of {length}"
        if len(operation.section) > _LONGEST_SECTION:
            return f"a section is a heading of at most {_LONGEST_SECTION} characters, not of {len(operation.section)}"
    removals = {operation.skill_id for operation in batch.operations if operation.type == "REMOVE"}
    if len(removals) > _REMOVALS_ALWAYS_ALLOWED:
        count = len(skillbook.skills())
        if len(removals) > _LARGEST_REMOVED_SHARE * count:
            # A trace that says "delete all skills" must not get its way.
            return f"one reflection cannot justify the removal of {len(removals)} of {count} skills"
    return None


def _problem_with_operation(operation: UpdateOperation, skillbook: SkillbookReader) -> str | None:
    if operation.type not in OPERATION_TYPES:
        return f"the operation {operation.type!r} is unknown"
    if operation.type in ("ADD", "UPDATE") and not (operation.content or "").strip():
        return f"{operation.type} needs content"
    if operation.type == "ADD":
        return None
    if not operation.skill_id:
        return f"{operation.type} needs a skill_id"
    if skillbook.get_skill(operation.skill_id) is None:
        return f"there is no skill {operation.skill_id!r}"
    if operation.type == "TAG" and not any(tag in operation.metadata for tag in TAGS):
        return f"TAG needs metadata with one of {', '.join(TAGS)}"
    return None
