"""Converts the operations of callers and models into events, and reports their results.

Inputs are validated before they become events, so that a skillbook never contains anything that cannot be read back.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ace._internal.arguments import instance_of, shown, whole_number
from ace._internal.decoding import LARGEST_COUNT
from ace._internal.hidden_characters import first_hidden
from ace.skill import (
    ACTIVE,
    CASE_RESULTS,
    CHECK_KINDS,
    EVIDENCES,
    INVALID,
    MAX_CASES,
    PENDING,
    TAGS,
    CaseCheck,
    InsightSource,
    SimilarityDecision,
    Skill,
    SkillCase,
    Status,
    join_cases,
    skill_from_fields,
)
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.events import (
    NO_NUMBER,
    Added,
    CaseChange,
    CaseRun,
    CasesChanged,
    Event,
    Removed,
    Tagged,
    Updated,
    content_checksum,
)
from ace.skillbook.locations import HIDDEN
from ace.skillbook.state import BookState, is_citable, looks_like_ours
from ace.updates import OPERATION_TYPES, UpdateOperation

if TYPE_CHECKING:
    from logging import Logger

    from ace.skillbook.store import SampleKey

LONGEST_LEARNED_TEXT = 20_000
"""The limit for the text of a learned skill, in characters."""
_MANY = 5
"""If more operations than this are skipped for the same reason, they are logged as one line."""


def check_text(text: str, name: str) -> None:
    """Reject values that are not strings, and strings with lone surrogates, which cannot be encoded."""
    if not isinstance(text, str):
        raise EventRefusedError(f"{name} must be a string, got {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            reason = f"lone surrogate at character {error.start}"
            raise EventRefusedError(f"{name}: {reason}") from error


def check_content(content: str) -> None:
    """Reject content that is empty or not a string."""
    check_text(content, "content")
    if not content or content.isspace():
        raise EventRefusedError("the content is empty")


def check_names(name: str, value: object) -> None:
    """Reject a single name, which would be taken for its letters, and what has no names."""
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise TypeError(f"{name} must be a list of names, got {shown(value)}")


def check_function(name: str, value: object) -> None:
    """Reject a value that is neither None nor a function."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, got {shown(value)}")


def check_removal(skill_id: object, soft: object) -> None:
    """Reject arguments of `remove_skill` of another kind."""
    if not isinstance(skill_id, str) or not isinstance(soft, bool):  # a removal is so quick that further calls count
        instance_of("skill_id", skill_id, str)
        instance_of("soft", soft, bool)


def check_note(author: str, key: SampleKey | None = None, progress: str | None = None) -> None:
    """Reject what a store could not record about a commit, or not read back."""
    check_text(author, "author")
    if progress is not None:
        check_text(progress, "progress")
    if key is not None:
        from ace.skillbook.store import SampleKey  # only needed for runs

        instance_of("key", key, SampleKey)
        check_text(key.run, "key.run")
        whole_number("key.epoch", key.epoch, least=0)
        check_text(key.sample, "key.sample")


def check_section(section: str) -> str:
    """Return the section as one line, without surrounding whitespace."""
    check_text(section, "section")
    return section if section.isalnum() else " ".join(section.split())


def check_id(skill_id: str) -> None:
    """Reject an id that could not be cited in brackets."""
    check_text(skill_id, "skill_id")
    if not is_citable(skill_id):
        raise EventRefusedError(
            f"{skill_id!r} is not a valid id: it must consist of printable characters other than spaces and brackets"
        )


def check_counters(counters: Mapping[str, object]) -> dict[str, int]:
    """Return the counters, which must be non-negative integers by tag."""
    if not isinstance(counters, Mapping):
        raise EventRefusedError(f"metadata must be a dict of counters, got {type(counters).__name__}")
    checked = {}
    for tag, increment in counters.items():
        if tag not in TAGS:
            raise EventRefusedError(f"{tag!r} is not a tag; use {', '.join(TAGS)}")
        if not isinstance(increment, int) or isinstance(increment, bool) or not 0 <= increment <= LARGEST_COUNT:
            raise EventRefusedError(f"the increment of {tag} must be a whole number of at least 0, got {increment!r}")
        checked[tag] = increment
    return checked


def check_source(source: InsightSource) -> InsightSource:
    """Return the source, whose fields must be serializable."""
    if not isinstance(source, InsightSource):
        raise EventRefusedError(f"insight_source must be an InsightSource, got {type(source).__name__}")
    for name, value in source.__dict__.items():
        if name in ("epoch", "step"):
            if type(value) is not int or not 0 <= value <= LARGEST_COUNT:
                raise EventRefusedError(f"insight_source.{name} must be a whole number of at least 0, got {value!r}")
        else:
            check_text(value, f"insight_source.{name}")
    _check_evidence(source.evidence, "insight_source.evidence")
    return source


def check_cases(cases: Sequence[SkillCase]) -> tuple[SkillCase, ...]:
    """Return the cases without duplicates; their fields must be serializable."""
    argument: object = cases
    if isinstance(argument, str | bytes) or not isinstance(argument, Sequence):
        raise EventRefusedError(f"cases must be a list of SkillCase, got {type(argument).__name__}")
    for index, case in enumerate(cases):
        _check_case(case, f"cases[{index}]")
    return join_cases(cases)


def _check_case(case: object, place: str) -> None:
    check: object = getattr(case, "check", None)
    if not isinstance(case, SkillCase) or not isinstance(check, CaseCheck):
        raise EventRefusedError(f"{place} must be a SkillCase with a CaseCheck, got {case!r:.100}")
    for name, value in {**case.__dict__, **case.check.__dict__}.items():
        if name != "check":
            check_text(value, f"{place}.{name}")
    for name in ("id", "question"):
        if not getattr(case, name).strip():
            raise EventRefusedError(f"{place}.{name} is empty")
    if case.check.kind not in CHECK_KINDS:
        raise EventRefusedError(f"{place}.check.kind must be one of {', '.join(CHECK_KINDS)}, got {case.check.kind!r}")
    if case.last_result not in CASE_RESULTS:
        raise EventRefusedError(
            f"{place}.last_result must be one of {', '.join(CASE_RESULTS)}, got {case.last_result!r}"
        )
    _check_evidence(case.evidence, f"{place}.evidence")


def _check_evidence(evidence: object, place: str) -> None:
    if evidence not in EVIDENCES:
        raise EventRefusedError(f"{place} must be one of {', '.join(EVIDENCES)}, got {evidence!r}")


def check_decision(decision: SimilarityDecision) -> SimilarityDecision:
    """Return the decision with its similarity as a plain number."""
    for name in ("decision", "reasoning", "decided_at"):
        check_text(getattr(decision, name), name)
    similarity = float(decision.similarity_at_decision)
    if not math.isfinite(similarity):
        raise EventRefusedError(f"the similarity must be a number, got {similarity}")
    return replace(decision, similarity_at_decision=similarity)


def check_operation(operation: UpdateOperation) -> None:
    """Reject an operation whose texts or source have the wrong type; the constructor does not check them."""
    for name in ("section", "content", "skill_id", "justification", "evidence", "pending"):
        if (text := getattr(operation, name)) is not None:
            check_text(text, name)
    if operation.insight_source is not None:
        check_source(operation.insight_source)
    metadata: object = operation.metadata
    if metadata and not isinstance(metadata, Mapping):
        raise EventRefusedError(f"metadata must be a dict of counters, got {type(metadata).__name__}")
    _further_sources(operation)
    if operation.cases:
        check_cases(operation.cases)


def check_learned_texts(operation: UpdateOperation) -> None:
    """Reject texts that a person could not review: of any length, or with characters that are not seen.

    What a person writes is not checked, only what was learned.
    """
    for name in ("section", "content"):
        text = getattr(operation, name) or ""
        if len(text) > LONGEST_LEARNED_TEXT:
            raise EventRefusedError(f"the {name} has {len(text):,} characters; the limit is {LONGEST_LEARNED_TEXT:,}")
        if (hidden := first_hidden(text)) is not None:
            raise EventRefusedError(f"the {name} contains the invisible character {hidden}")


def _further_sources(operation: UpdateOperation) -> list[InsightSource]:
    """Return the sources of an operation after the first one, from which they differ only in the trace."""
    try:
        traces = operation.evidence_traces
    except ValueError as error:
        raise EventRefusedError(str(error)) from None
    first = operation.insight_source
    if first is None:
        return []
    return [check_source(replace(first, trace_id=trace)) for trace in traces if trace != first.trace_id]


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
    *,
    further_sources: Sequence[InsightSource] = (),
    pending: str = "",
) -> Added:
    """Return the event that adds a skill.

    Raises:
        EventRefusedError: If a text or a counter is invalid, or the id is taken.
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
            "status": PENDING if pending else ACTIVE,
            "sources": () if source is None else (check_source(source), *further_sources),
            "merged_into": None,
            "cases": check_cases(cases) if cases else (),
            "pinned": False,
            "reason": pending,
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
    pinned: bool | None = None,
    *,
    further_sources: Sequence[InsightSource] = (),
    status: Status | None = None,
    reason: str = "",
) -> Updated:
    """Return the event that changes a skill; None leaves a text, the pin or the status unchanged.

    Raises:
        EventRefusedError: If a text or a counter is invalid.
    """
    new = {name: text for name, text in texts.items() if text is not None}
    for name, text in new.items():
        if name == "content":
            check_content(text)
        elif name == "section":
            new[name] = check_section(text)
        else:
            check_text(text, name)
    counts = check_counters(counters) if counters else {}
    checked = check_cases(cases) if cases else ()
    source = None if source is None else check_source(source)
    check_text(reason, "reason")
    return Updated(skill_id, new, counts, source, at, checked, pinned, tuple(further_sources), status, reason)


def accepted(state: BookState, at: str, skill_id: str) -> Updated:
    """Return the event that makes a pending or rejected skill active.

    Raises:
        EventRefusedError: If there is no such skill, or it is neither pending nor rejected.
    """
    skill = _named(state, skill_id)
    if not skill.is_pending and not skill.is_rejected:
        raise EventRefusedError(f"the skill {skill_id!r} is neither pending nor rejected")
    return updated(skill_id, at, {}, None, None, status=ACTIVE)


def rejected(state: BookState, at: str, skill_id: str, because: str) -> Updated:
    """Return the event that rejects a skill.

    Raises:
        EventRefusedError: If there is no such skill, it is pinned or not active or pending, or the reason is empty.
    """
    check_text(because, "because")
    if not because.strip():
        raise EventRefusedError("because must not be empty: later reflections are shown the reason")
    skill = _named(state, skill_id)
    if skill.status == INVALID:
        raise EventRefusedError(f"the skill {skill_id!r} is not active or pending")
    if skill.pinned:
        raise EventRefusedError(f"the skill {skill_id!r} is pinned; unpin it before rejecting it")
    return updated(skill_id, at, {}, None, None, status=INVALID, reason=because)


def decision_undone(state: BookState, at: str, skill_id: str, before: Skill | None) -> Updated:
    """Return the event that undoes the last acceptance or rejection of a skill.

    Args:
        state: The state of the book.
        at: The current time.
        skill_id: The skill.
        before: The skill as it was before that decision; None if it was never accepted or rejected.

    Raises:
        EventRefusedError: If the skill does not exist, or its last acceptance or rejection has been undone already.
    """
    skill = _named(state, skill_id)
    if skill.is_pending:
        raise EventRefusedError(
            f"the skill {skill_id!r} is pending: it was not accepted or rejected, or that was undone already"
        )
    if not (skill.is_active or skill.is_rejected):
        raise EventRefusedError(f"the skill {skill_id!r} was removed or merged into another one")
    if before is None or before.status == skill.status:
        raise EventRefusedError(f"the skill {skill_id!r} was neither accepted nor rejected")
    return updated(skill_id, at, {}, None, None, status=before.status, reason=before.reason)


def _named(state: BookState, skill_id: str) -> Skill:
    instance_of("skill_id", skill_id, str)
    skill = state.skills.get(skill_id)
    if skill is None:
        raise EventRefusedError(f"no such skill: {skill_id!r}")
    return skill


def cases_put(skill_id: str, cases: Sequence[SkillCase], at: str) -> CasesChanged:
    """Return the event that adds or replaces cases.

    Raises:
        EventRefusedError: If one of them is not a case, or cannot be serialized.
    """
    return CasesChanged({skill_id: CaseChange(put=check_cases(cases))}, at)


def results_noted(
    state: BookState, results: Mapping[str, Sequence[SkillCase]], at: str, contents: Mapping[str, str]
) -> CasesChanged:
    """Return the event that records results, without those of unknown cases and those that change nothing.

    Args:
        state: The state of the book.
        results: The cases with their results, by skill id.
        at: The current time, for results without one.
        contents: The texts with which the cases were run, by skill id. If the text of a skill is different now, or when
            the event is reapplied after a commit of another process, its results are ignored.

    Raises:
        EventRefusedError: If one of them is not a case, or cannot be serialized.
    """
    changes: dict[str, CaseChange] = {}
    for id, cases in results.items():
        skill = state.skills.get(id)
        known = {} if skill is None else {case.id: _run_of(case) for case in skill.cases}
        asked = map(_run_of, _timed(check_cases(cases), at))
        runs = tuple(run for run in asked if known.get(run.case_id, run) != run)
        if skill is None or not runs or contents.get(id, skill.content) != skill.content:
            continue
        changes[id] = CaseChange(results=runs, checksum=content_checksum(skill.content) if id in contents else None)
    return CasesChanged(changes, at)


def _run_of(case: SkillCase) -> CaseRun:
    return CaseRun(case.id, case.last_result, case.last_run_at, case.model, case.answer)


def tagged(skill_id: str, counters: Mapping[str, object], at: str) -> Tagged:
    """Return the event that increments counters.

    Raises:
        EventRefusedError: If a tag is unknown, or an increment is not a non-negative integer.
    """
    return Tagged(skill_id, check_counters(counters), at)


def event_of(state: BookState, operation: UpdateOperation, at: str) -> Event:
    """Return the event of an operation; a single event makes the operation atomic.

    Raises:
        EventRefusedError: If the operation is invalid; the message says why.
    """
    type_: object = operation.type  # the constructor accepts any type
    type_name = type_.strip().upper() if isinstance(type_, str) else ""
    if type_name not in OPERATION_TYPES:
        raise EventRefusedError(f"unknown operation type {operation.type!r}; use {', '.join(OPERATION_TYPES)}")
    check_operation(operation)
    check_learned_texts(operation)
    if type_name == "ADD":
        return _added_by(state, operation, at)
    id = operation.skill_id
    if not id:
        raise EventRefusedError(f"{type_name} requires a skill_id")
    if id not in state.skills:
        raise EventRefusedError(f"no such skill: {id!r}")
    if type_name == "REMOVE":
        return Removed(id, False, at)
    if type_name == "TAG":
        counters = check_counters(operation.counters)
        counters = {tag: increment for tag, increment in counters.items() if increment}
        if not counters:
            raise EventRefusedError(f"TAG requires a counter in metadata: one of {', '.join(TAGS)}")
        return tagged(id, counters, at)
    return _updated_by(state.skills[id], operation, at)


def _updated_by(skill: Skill, operation: UpdateOperation, at: str) -> Updated:
    """Return the event of an UPDATE. One that is not pending itself makes a pending skill active.

    Of those that roles write, `ApplyStep` lets only an addition through that says the same as a pending skill.
    """
    texts = {
        "section": (operation.section or "").strip() or None,
        "content": operation.content,
        "justification": operation.justification,
        "evidence": operation.evidence,
    }
    if texts["section"] is not None and texts["section"] == skill.section:
        texts["section"] = None
    if skill.pinned and (texts["section"] is not None or texts["content"] not in (None, skill.content)):
        raise EventRefusedError(f"the skill {skill.id!r} is pinned; its text and section cannot be changed")
    if operation.pending and not skill.is_pending:
        raise EventRefusedError(operation.pending)
    changes = [*texts.values(), operation.counters or None, operation.cases or None, skill.is_pending or None]
    if all(change is None for change in changes):
        raise EventRefusedError("UPDATE requires a change, such as new content")
    if operation.pending:
        texts |= {"content": None, "section": None}
    cases = _timed(operation.cases, at)
    return updated(
        *(skill.id, at, texts, operation.counters, operation.insight_source, cases),
        further_sources=_further_sources(operation),
        status=ACTIVE if skill.is_pending and not operation.pending else None,
    )


def _timed(cases: Sequence[SkillCase], at: str) -> list[SkillCase]:
    """Return the cases, with the time of the change for those that have none.

    Values that are not cases are rejected later.
    """
    return [_timed_case(case, at) if type(case) is SkillCase else case for case in cases]


def _timed_case(case: SkillCase, at: str) -> SkillCase:
    was_run = case.last_result != "not_run"
    return replace(case, made_at=case.made_at or at, last_run_at=case.last_run_at or (at if was_run else ""))


def _added_by(state: BookState, operation: UpdateOperation, at: str) -> Added | Updated:
    """Return the event of an ADD. Its sources, cases and counters join a skill of the section with the same text."""
    if operation.skill_id and operation.skill_id in state.skills:
        raise EventRefusedError(f"there is already a skill {operation.skill_id!r}; use UPDATE to change it")
    if operation.content is None:
        raise EventRefusedError("ADD requires content")
    known = state.with_text(check_section(operation.section), operation.content)
    if known is not None:
        return _updated_by(known, replace(operation, section="", content=known.content), at)
    wanted = operation.skill_id if operation.skill_id and looks_like_ours(operation.skill_id) else None
    event = added(
        state,
        at,
        operation.section or "",
        operation.content,
        wanted,
        operation.counters,
        operation.justification,
        operation.evidence,
        operation.insight_source,
        _timed(operation.cases[:MAX_CASES], at),
        further_sources=_further_sources(operation),
        pending=operation.pending,
    )
    return event if wanted is None else Added(event.skill, NO_NUMBER)


@dataclass(frozen=True, slots=True)
class AppliedOperation:
    """An operation that was applied."""

    index: int
    """Its index in the batch."""
    operation: UpdateOperation
    skill_id: str
    """The skill that it added or changed."""


@dataclass(frozen=True, slots=True)
class SkippedOperation:
    """An operation that was skipped as a whole."""

    index: int
    operation: UpdateOperation
    reason: str
    """The reason, as text."""

    def to_note(self) -> dict[str, object]:
        """Return the operation and the reason as JSON values, whatever the types of its fields are."""
        fields = {name: getattr(self.operation, name) for name in self.operation.__dataclass_fields__}
        noted = {name: _json_value(value) for name, value in fields.items() if value not in (None, "", {}, ())}
        return {"operation": noted, "reason": self.reason}


def without_texts(operation: UpdateOperation) -> UpdateOperation:
    """Return the operation without its texts, only with its type and its skill."""
    hidden = None if operation.content is None else HIDDEN
    return replace(
        operation,
        section=HIDDEN,
        content=hidden,
        justification=None,
        evidence=None,
        insight_source=None,
        cases=(),
        pending="",
    )


def _json_value(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, InsightSource | SkillCase | CaseCheck):
        return _json_value(value.__dict__)
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    return [_json_value(item) for item in value] if isinstance(value, list | tuple) else repr(value)


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """The outcome of `Skillbook.apply_update`."""

    applied: tuple[AppliedOperation, ...] = ()
    skipped: tuple[SkippedOperation, ...] = ()
    version: int | None = None
    """The version that the batch was committed as; None without a store, or if nothing was committed yet."""
    at: str = ""
    """The time of the commit, see `version`: ISO 8601, UTC."""

    def with_commit(
        self, version: int, at: str, renamed: Mapping[str, str], refused: Mapping[str, str]
    ) -> UpdateReport:
        """Return the report updated after a commit for which changes had to be reapplied.

        Args:
            version: The new version.
            at: The time of the commit.
            renamed: The new ids, by the ids that the batch used.
            refused: The reasons, by the ids of skills that could no longer be changed.
        """
        applied, skipped = [], list(self.skipped)
        for done in self.applied:
            if done.skill_id in refused:
                skipped.append(SkippedOperation(done.index, done.operation, refused[done.skill_id]))
            else:
                applied.append(AppliedOperation(done.index, done.operation, renamed.get(done.skill_id, done.skill_id)))
        return UpdateReport(tuple(applied), tuple(sorted(skipped, key=lambda item: item.index)), version, at)


def log_skipped(logger: Logger, skipped: Sequence[SkippedOperation]) -> None:
    """Log each skipped operation, or only the number of those that share a reason if there are many."""
    by_reason: dict[str, list[SkippedOperation]] = {}
    for item in skipped:
        by_reason.setdefault(item.reason, []).append(item)
    for reason, items in by_reason.items():
        if len(items) > _MANY:
            first, last = items[0].index, items[-1].index
            logger.warning("%d operations, from %d to %d, were skipped: %s", len(items), first, last, reason)
            continue
        for item in items:
            logger.warning("Operation %d (%s) was skipped: %s", item.index, item.operation.type, reason)
