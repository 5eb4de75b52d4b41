"""From the operations that a model asks for to the events that change a book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ace.skill import ACTIVE, MAX_CASES, TAGS, InsightSource, SkillCase, skill_from_fields
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.events import NO_NUMBER, Added, CaseChange, CaseRun, CasesChanged, Event, Removed, Tagged, Updated
from ace.skillbook.identity import looks_like_ours
from ace.skillbook.input_checks import (
    check_cases,
    check_content,
    check_counters,
    check_id,
    check_operation,
    check_section,
    check_source,
    check_text,
)
from ace.skillbook.state import BookState
from ace.updates import OPERATION_TYPES, UpdateOperation


def added(
    state: BookState,
    at: str,
    section: str,
    content: str,
    skill_id: str | None = None,
    counters: Mapping[str, object] | None = None,
    justification: str | None = None,
    evidence: str | None = None,
    source: InsightSource | None = None,
    cases: Sequence[SkillCase] = (),
) -> Added:
    """Return the event that adds a skill.

    Raises:
        EventRefusedError: If a text or a counter cannot be taken, or the id is taken.
    """
    check_content(content)
    section = check_section(section)
    counts = check_counters(counters) if counters else {}
    number = None
    if skill_id is None:
        skill_id, number = state.free_id(section)
    else:
        check_id(skill_id)
    if justification is not None:
        check_text(justification, "justification")
    if evidence is not None:
        check_text(evidence, "evidence")
    skill = skill_from_fields(
        {
            "id": skill_id,
            "section": section,
            "content": content,
            "helpful": counts.get("helpful", 0),
            "harmful": counts.get("harmful", 0),
            "neutral": counts.get("neutral", 0),
            "justification": justification,
            "evidence": evidence,
            "created_at": at,
            "updated_at": at,
            "embedding": None,
            "status": ACTIVE,
            "sources": () if source is None else (check_source(source),),
            "merged_into": None,
            "cases": check_cases(cases) if cases else (),
        }
    )
    return Added(skill, number)


def updated(
    skill_id: str,
    at: str,
    texts: Mapping[str, str | None],
    counters: Mapping[str, object] | None,
    source: InsightSource | None,
    cases: Sequence[SkillCase] = (),
) -> Updated:
    """Return the event that changes a skill; texts that are None stay as they are.

    Raises:
        EventRefusedError: If a text or a counter cannot be taken.
    """
    new = {name: text for name, text in texts.items() if text is not None}
    for name, text in new.items():
        check_text(text, name)
    if "content" in new:
        check_content(new["content"])
    if "section" in new:
        new["section"] = check_section(new["section"])
    counts = check_counters(counters) if counters else {}
    checked = check_cases(cases) if cases else ()
    return Updated(skill_id, new, counts, None if source is None else check_source(source), at, checked)


def cases_put(skill_id: str, cases: Sequence[SkillCase], at: str) -> CasesChanged:
    """Return the event that adds or replaces cases.

    Raises:
        EventRefusedError: If one of them is not a case, or has a field that no file can hold.
    """
    return CasesChanged({skill_id: CaseChange(put=check_cases(cases))}, at)


def results_noted(state: BookState, results: Mapping[str, Sequence[SkillCase]], at: str) -> CasesChanged:
    """Return the event that notes results; of cases that the book lacks, or that say nothing new, it holds nothing.

    Raises:
        EventRefusedError: If one of them is not a case, or has a field that no file can hold.
    """
    changes: dict[str, CaseChange] = {}
    for id, cases in results.items():
        skill = state.skills.get(id)
        known = {} if skill is None else {case.id: _run_of(case) for case in skill.cases}
        runs = tuple(run for run in map(_run_of, check_cases(cases)) if known.get(run.case_id, run) != run)
        if runs:
            changes[id] = CaseChange(results=runs)
    return CasesChanged(changes, at)


def _run_of(case: SkillCase) -> CaseRun:
    return CaseRun(case.id, case.last_result, case.last_run_at, case.model, case.answer)


def tagged(skill_id: str, counters: Mapping[str, object], at: str) -> Tagged:
    """Return the event that raises counters.

    Raises:
        EventRefusedError: If there is no such tag, or an increment is no whole number from 0.
    """
    return Tagged(skill_id, check_counters(counters), at)


def event_of(state: BookState, operation: UpdateOperation, at: str) -> Event:
    """Return the event of one operation: one, so that it is made whole or not at all.

    Raises:
        EventRefusedError: If it cannot be carried out; the text says why.
    """
    given: object = operation.type  # the constructor takes anything
    type_name = given.strip().upper() if isinstance(given, str) else ""
    if type_name not in OPERATION_TYPES:
        raise EventRefusedError(f"the type {operation.type!r} is unknown; use {', '.join(OPERATION_TYPES)}")
    check_operation(operation)
    if type_name == "ADD":
        return _added_by(state, operation, at)
    id = operation.skill_id
    if not id:
        raise EventRefusedError(f"{type_name} needs a skill_id")
    if id not in state.skills:
        raise EventRefusedError(f"there is no skill {id!r}")
    if type_name == "REMOVE":
        return Removed(id, False, at)
    if type_name == "TAG":
        counters = check_counters(operation.metadata or {})
        counters = {tag: increment for tag, increment in counters.items() if increment}
        if not counters:
            raise EventRefusedError(f"TAG needs a counter in metadata: one of {', '.join(TAGS)}")
        return tagged(id, counters, at)
    texts = {
        "section": (operation.section or "").strip() or None,
        "content": operation.content,
        "justification": operation.justification,
        "evidence": operation.evidence,
    }
    if texts["section"] is not None and texts["section"] == state.skills[id].section:
        texts["section"] = None
    if all(text is None for text in texts.values()) and not operation.metadata and not operation.cases:
        raise EventRefusedError("UPDATE changes nothing: it needs a content")
    cases = _timed(operation.cases, at)
    return updated(id, at, texts, operation.metadata, operation.insight_source, cases)


def _timed(cases: Sequence[SkillCase], at: str) -> list[SkillCase]:
    """Return the cases with the time of the change where they have none: a run leaves times to the clock of the book.

    What is not a case is refused later.
    """
    return [_timed_case(case, at) if type(case) is SkillCase else case for case in cases]


def _timed_case(case: SkillCase, at: str) -> SkillCase:
    was_run = case.last_result != "not_run"
    return replace(case, made_at=case.made_at or at, last_run_at=case.last_run_at or (at if was_run else ""))


def _added_by(state: BookState, operation: UpdateOperation, at: str) -> Added:
    if operation.skill_id and operation.skill_id in state.skills:
        raise EventRefusedError(f"there is a skill {operation.skill_id!r} already; use UPDATE to change it")
    if operation.content is None:
        raise EventRefusedError("ADD needs a content")
    wanted = operation.skill_id if operation.skill_id and looks_like_ours(operation.skill_id) else None
    event = added(
        state,
        at,
        operation.section or "",
        operation.content,
        wanted,
        operation.metadata,
        operation.justification,
        operation.evidence,
        operation.insight_source,
        _timed(operation.cases[:MAX_CASES], at),
    )
    return event if wanted is None else Added(event.skill, NO_NUMBER)
