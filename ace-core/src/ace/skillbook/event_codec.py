"""Serializes events as JSON for a store. The JSON contains everything that a replay needs."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from ace.skill import TAGS, SimilarityDecision, Skill
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.events import (
    LARGEST_COUNT,
    Added,
    CaseChange,
    CaseRun,
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
from ace.skillbook.json_read import (
    decision_pair,
    member_list,
    object_value,
    optional_text,
    read_cases,
    read_skill,
    read_source,
    read_sources,
    shown,
    text_value,
    truth_value,
    whole_number,
)

# `json.dumps` with options makes an encoder for each call, which takes a quarter of the time for a short text.
encode_compactly = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Serializes an object of a store as one line of JSON."""

_TEXTS = ("section", "content", "justification", "evidence")


def encode_events(events: Sequence[Event]) -> str:
    """Return the events as one compact JSON text."""
    return encode_compactly([event_dict(event) for event in events])


def decode_events(text: str) -> tuple[Event, ...]:
    """Return the events of a text that `encode_events` wrote.

    Raises:
        ValueError: If it is not a valid list of events.
        KeyError: If a field is missing.
        RecursionError: If it is nested too deeply.
    """
    events = json.loads(text)
    if not isinstance(events, list):
        raise SkillbookFileError(f"must be a list of events, got {shown(events)}")
    return tuple(_event(object_value(fields, f"event {place}")) for place, fields in enumerate(events))


def event_dict(event: Event) -> dict[str, Any]:
    """Return the event as a dict; `kind` is its type."""
    match event:
        case Added():
            return {"kind": "add", "skill": event.skill.to_dict(), "number": event.number}
        case Updated():
            cases = {"cases": [case.to_dict() for case in event.cases]} if event.cases else {}
            pinned = {} if event.pinned is None else {"pinned": event.pinned}
            further = [source.to_dict() for source in event.further_sources]
            return {
                "kind": "update",
                "skill_id": event.skill_id,
                "texts": dict(event.texts),
                "counters": dict(event.counters),
                "source": None if event.source is None else event.source.to_dict(),
                "at": event.at,
                **cases,
                **pinned,
                **({"further_sources": further} if further else {}),
            }
        case Tagged():
            counters = dict(event.counters)
            return {"kind": "tag", "skill_id": event.skill_id, "counters": counters, "at": event.at}
        case Removed():
            return {"kind": "remove", "skill_id": event.skill_id, "soft": event.soft, "at": event.at}
        case Merged():
            return {
                "kind": "merge",
                "keep_id": event.keep_id,
                "merged_ids": list(event.merged_ids),
                "content": event.content,
                "at": event.at,
            }
        case Kept():
            return {
                "kind": "keep",
                "skill_ids": [event.first_id, event.second_id],
                **event.decision.to_dict(),
            }
        case Imported():
            return {
                "kind": "import",
                "skills": [skill.to_dict() for skill in event.skills],
                "decisions": [{"skill_ids": [a, b], **decision.to_dict()} for a, b, decision in event.decisions],
                "next_id": event.next_id,
            }
        case Embedded():
            return {"kind": "embed", "skills": [[id, checksum] for id, _, checksum in event.vectors]}
        case RolledBack():
            return {"kind": "rollback", "version": event.version}
        case CasesChanged():
            changes = {id: _change_dict(change) for id, change in event.changes.items()}
            return {"kind": "cases", "skills": changes, "at": event.at}


def _change_dict(change: CaseChange) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "put": [case.to_dict() for case in change.put],
        "removed": list(change.removed),
        "results": [list(run) for run in change.results],
    }
    if change.checksum is not None:
        fields["checksum"] = change.checksum
    return {name: value for name, value in fields.items() if value != []}


def _event(fields: dict[str, Any]) -> Event:
    match fields["kind"]:
        case "add":
            number = None if fields["number"] is None else _number(fields, "number")
            return Added(_skill(fields["skill"]), number)
        case "update":
            source = fields["source"]
            further = read_sources(fields.get("further_sources"), "further_sources")
            texts = object_value(fields["texts"], "texts")
            return Updated(
                _text(fields, "skill_id"),
                {_one_of(_TEXTS, name): text_value(text, name) for name, text in texts.items()},
                _counters(fields),
                None if source is None else read_source(source, "source", strict=True),
                _text(fields, "at"),
                read_cases(fields.get("cases"), "cases"),
                truth_value(fields["pinned"], "pinned") if "pinned" in fields else None,
                further,
            )
        case "tag":
            return Tagged(_text(fields, "skill_id"), _counters(fields), _text(fields, "at"))
        case "remove":
            return Removed(_text(fields, "skill_id"), truth_value(fields["soft"], "soft"), _text(fields, "at"))
        case "merge":
            at = _text(fields, "at")
            merged_ids = tuple(member_list(fields["merged_ids"], "merged_ids"))
            return Merged(_text(fields, "keep_id"), merged_ids, optional_text(fields["content"], "content"), at)
        case "keep":
            (first, second), decision = _pair(fields)
            return Kept(first, second, decision)
        case "import":
            decisions = tuple((*pair, decision) for pair, decision in map(_pair, _list(fields, "decisions")))
            return Imported(tuple(map(_skill, _list(fields, "skills"))), decisions, _number(fields, "next_id"))
        case "embed":
            return Embedded(tuple(map(_vector, _list(fields, "skills"))))
        case "rollback":
            return RolledBack(_number(fields, "version"))
        case "cases":
            changes = object_value(fields["skills"], "skills")
            return CasesChanged({id: _change(change, id) for id, change in changes.items()}, _text(fields, "at"))
        case kind:
            raise ValueError(f"unknown kind of event {kind!r}, written by a newer version of ace")


def _change(value: object, skill_id: str) -> CaseChange:
    place = f"skills[{skill_id!r}]"
    fields = object_value(value, place)
    if unknown := fields.keys() - {"put", "removed", "results", "checksum"}:
        raise SkillbookFileError("unknown field", place=f"{place}.{min(unknown)}")
    removed = tuple(member_list(fields.get("removed", []), f"{place}.removed"))
    results = tuple(map(_run, _list({"results": [], **fields}, "results")))
    checksum = _number(fields, "checksum") if "checksum" in fields else None
    return CaseChange(read_cases(fields.get("put"), f"{place}.put"), removed, results, checksum)


def _run(entry: object) -> CaseRun:
    match entry:
        case [str(case_id), "passed" | "failed" | "not_run" as result, str(at), str(model)]:
            return CaseRun(case_id, result, at, model)  # written before answers were stored
        case [str(case_id), "passed" | "failed" | "not_run" as result, str(at), str(model), str(answer)]:
            return CaseRun(case_id, result, at, model, answer)
    raise SkillbookFileError(
        f"must be a case, its result, a time, a model and an answer, got {shown(entry)}", place="results"
    )


def _pair(fields: object) -> tuple[tuple[str, str], SimilarityDecision]:
    rest = {name: value for name, value in object_value(fields, "decision").items() if name != "kind"}
    ids = member_list(rest["skill_ids"], "skill_ids")
    return decision_pair(",".join(sorted(ids)), rest)


def _skill(fields: object) -> Skill:
    values = object_value(fields, "skill")
    return read_skill(_text(values, "id"), values, strict=True)


def _vector(entry: object) -> tuple[str, None, int]:
    match entry:
        case [str(id), int(checksum)]:
            return id, None, checksum
    raise SkillbookFileError(f"must be an id and a checksum, got {shown(entry)}", place="skills")


def _text(fields: dict[str, Any], name: str) -> str:
    return text_value(fields[name], name)


def _number(fields: dict[str, Any], name: str) -> int:
    return whole_number(fields[name], name, largest=LARGEST_COUNT)


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields[name]
    if not isinstance(value, list):
        raise SkillbookFileError(f"must be a list, got {shown(value)}", place=name)
    return value


def _counters(fields: dict[str, Any]) -> dict[str, int]:
    counters = object_value(fields["counters"], "counters")
    return {_one_of(TAGS, tag): _number(counters, tag) for tag in counters}


def _one_of(names: Collection[str], name: str) -> str:
    if name not in names:
        raise SkillbookFileError(f"{shown(name)} is not one of {', '.join(names)}")
    return name
