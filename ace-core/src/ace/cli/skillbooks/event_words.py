"""Says in words what a change of a history did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ace.skill import SkillCase
from ace.skillbook.events import (
    Added,
    CaseChange,
    CasesChanged,
    Embedded,
    Event,
    Imported,
    Kept,
    Merged,
    Removed,
    RolledBack,
    Tagged,
    Updated,
)

__all__ = ["counted", "described"]


def counted(events: Sequence[Event]) -> str:
    """Return how many changes of each kind there were.

    Args:
        events: The changes of one version.

    Example:
        >>> counted([Tagged("a-00001", {"helpful": 1}, ""), Tagged("a-00002", {"helpful": 1}, ""), RolledBack(3)])
        '2 tagged, rolled back to version 3'
    """
    numbers: Counter[str] = Counter()
    others = []
    for event in events:
        match event:
            case RolledBack(version=version):
                others.append(f"rolled back to version {version}")
            case Imported(skills=skills):
                numbers["imported"] += len(skills)
            case Embedded(vectors=vectors):
                numbers["embedded"] += len(vectors)
            case Merged(merged_ids=merged):
                numbers["merged"] += len(merged)
            case CasesChanged(changes=changes):
                others += _case_numbers(changes.values())
            case _:
                numbers[_verb(event)] += 1
    return ", ".join([*(f"{number} {verb}" for verb, number in numbers.items()), *others]) or "nothing"


def described(event: Event, skill_id: str) -> str:
    """Return what a change did to one skill.

    Args:
        event: The change.
        skill_id: The skill that the words are about.

    Example:
        >>> described(Tagged("a-00001", {"helpful": 2}, ""), "a-00001")
        'tagged: helpful +2'
    """
    match event:
        case Added(skill=skill):
            return f"added: {skill.content}"
        case Updated():
            return _updated(event)
        case Tagged(counters=counters):
            return f"tagged: {', '.join(_raised(counters))}"
        case Merged(keep_id=keep_id, merged_ids=merged, content=content):
            if skill_id != keep_id:
                return f"merged into {keep_id}"
            return f"merged with {', '.join(merged)}" + ("" if content is None else f": {content}")
        case Kept(first_id=first, second_id=second, decision=decision):
            reason = f": {decision.reasoning}" if decision.reasoning else ""
            return f"kept apart from {second if skill_id == first else first}{reason}"
        case Imported(skills=skills):
            return "imported: " + next((skill.content for skill in skills if skill.id == skill_id), "")
        case RolledBack(version=version):
            return f"rolled back to version {version}"
        case Embedded():
            return "embedded"
        case CasesChanged(changes=changes):
            return "; ".join(_changed_cases(changes.get(skill_id, CaseChange()))) or "cases of other skills"
        case Removed():
            return _verb(event)


def _verb(event: Added | Updated | Tagged | Removed | Kept) -> str:
    match event:
        case Added():
            return "added"
        case Updated(texts=texts, counters=counters, pinned=bool(pinned)) if not texts and not counters:
            return "pinned" if pinned else "unpinned"
        case Updated():
            return "updated"
        case Tagged():
            return "tagged"
        case Removed(soft=soft):
            return "removed" if soft else "deleted"
        case Kept():
            return "kept apart"


def _updated(event: Updated) -> str:
    verb = _verb(event)
    if verb != "updated":
        return verb
    parts = [
        *(f"{name}: {text}" for name, text in event.texts.items()),
        *_raised(event.counters),
        *(f"case {case.id}: {_case_words(case)}" for case in event.cases),
    ]
    return f"updated: {'; '.join(parts) or 'one more source'}"


def _raised(counters: Mapping[str, int]) -> list[str]:
    return [f"{tag} +{increment}" for tag, increment in counters.items() if increment]


def _changed_cases(change: CaseChange) -> list[str]:
    return [
        *(f"case {case.id} set: {_case_words(case)}" for case in change.put),
        *(f"case {id} removed" for id in change.removed),
        *(
            f"case {run.case_id} {_result(run.result)}{f' with {run.model}' if run.model else ''}"
            for run in change.results
        ),
    ]


def _case_words(case: SkillCase) -> str:
    return f"{case.question} ({_result(case.last_result)})"


def _case_numbers(changes: Collection[CaseChange]) -> list[str]:
    numbers = {
        "set": sum(len(change.put) for change in changes),
        "removed": sum(len(change.removed) for change in changes),
        "run": sum(len(change.results) for change in changes),
    }
    return [f"{number} case{'' if number == 1 else 's'} {verb}" for verb, number in numbers.items() if number]


def _result(result: str) -> str:
    return result.replace("_", " ")
