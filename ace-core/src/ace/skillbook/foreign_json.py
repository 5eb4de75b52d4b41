"""Reads skills with care for their fields: from other frameworks, or from a file that somebody edited."""

from __future__ import annotations

import logging
from typing import Any

from ace.skill import ACTIVE, INVALID, TAGS, InsightSource, Skill, SkillCase
from ace.skillbook.checked import (
    decision_pair,
    member_list,
    object_value,
    optional_text,
    shown,
    text_value,
    whole_number,
)
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.events import LARGEST_COUNT
from ace.skillbook.state import BookContents, number_after, skill_id
from ace.skillbook.vectors import vector_bytes

logger = logging.getLogger(__name__)

_FOREIGN_FIELDS = {
    "schema_version",
    "version",
    "skills",
    "bullets",
    "sections",
    "next_id",
    "similarity_decisions",
}
_KNOWN_SOURCE_FIELDS = frozenset(InsightSource.__dataclass_fields__)
_KNOWN_SKILL_FIELDS = frozenset(Skill.__dataclass_fields__) | {"metadata"}
_CONTENT_NAMES = ("content", "text", "insight")


def read_foreign(data: dict[str, Any]) -> BookContents:
    """Read the file of another framework: `skills` or `bullets`, as an object by id or as a list.

    What has no place in a skillbook is named in a warning and in `ignored_fields`.
    """
    name = next((name for name in ("skills", "bullets") if name in data), None)
    if name is None:
        raise SkillbookFileError("a skillbook has an object 'skills', and this file has none")
    version = data.get("schema_version", "")
    if isinstance(version, bool) or not isinstance(version, str | int):
        raise SkillbookFileError(f"this must be a number or a text, not {shown(version)}", place="schema_version")
    section_of = _section_of(data.get("sections", {}))
    ignored = data.keys() - _FOREIGN_FIELDS
    contents = BookContents()
    seen: set[str] = set()
    for id, fields, place in _entries(data[name], name, section_of):
        if id in seen:
            raise SkillbookFileError(f"the id {id!r} is there twice", place=place)
        seen.add(id)
        fields = {"section": section_of.get(id, ""), **fields}
        if not _has_our_cases(fields):
            ignored |= {f"{name}.cases"}
            del fields["cases"]
        ignored |= {f"{name}.{field}" for field in fields.keys() - _KNOWN_SKILL_FIELDS - set(_CONTENT_NAMES)}
        contents.skills.append(read_skill(id, fields, strict=False))
    if unknown := section_of.keys() - seen:
        raise SkillbookFileError(f"there is no skill {min(unknown)!r}", place=f"sections[{section_of[min(unknown)]!r}]")
    for key, fields in object_value(data.get("similarity_decisions") or {}, "similarity_decisions").items():
        pair, decision = decision_pair(key, fields)
        contents.decisions[pair] = decision
    next_id = whole_number(data.get("next_id", 1), "next_id", largest=LARGEST_COUNT)
    contents.next_id = max(next_id, number_after(seen))
    contents.ignored_fields = tuple(sorted(ignored))
    if ignored:
        logger.warning("A skillbook has no place for these fields of the file: %s", ", ".join(sorted(ignored)))
    return contents


def read_skill(id: str, data: Any, *, strict: bool) -> Skill:
    """Read one skill.

    Args:
        id: Its id.
        data: Its fields; all but section and content may be missing.
        strict: Whether a field that a skillbook does not know is refused.
    """
    place = f"skills[{id!r}]"
    fields = object_value(data, place)
    if strict and (unknown := fields.keys() - _KNOWN_SKILL_FIELDS | fields.keys() & {"metadata"}):
        raise SkillbookFileError("this field is unknown", place=f"{place}.{min(unknown)}")
    if fields.get("id", id) != id:
        raise SkillbookFileError(f"the id inside is {shown(fields['id'])}", place=place)
    if not id:
        raise SkillbookFileError("an id cannot be empty", place=place)
    content = next((fields[name] for name in _CONTENT_NAMES if name in fields), None)
    if not text_value(content, f"{place}.content").strip():
        raise SkillbookFileError("a skill without text", place=f"{place}.content")
    if "section" not in fields:
        raise SkillbookFileError("a skill needs a section", place=f"{place}.section")
    status = fields.get("status", ACTIVE)
    if status not in (ACTIVE, INVALID):
        raise SkillbookFileError(
            f"this must be {ACTIVE!r} or {INVALID!r}, not {shown(status)}", place=f"{place}.status"
        )
    metadata = fields.get("metadata") or {}
    counts = {**object_value(metadata, f"{place}.metadata"), **fields}
    counters = {tag: whole_number(counts.get(tag, 0), f"{place}.{tag}", largest=LARGEST_COUNT) for tag in TAGS}
    return Skill(
        id=id,
        section=text_value(fields["section"], f"{place}.section"),
        content=text_value(content, f"{place}.content"),
        helpful=counters["helpful"],
        harmful=counters["harmful"],
        neutral=counters["neutral"],
        justification=optional_text(fields.get("justification"), f"{place}.justification"),
        evidence=optional_text(fields.get("evidence"), f"{place}.evidence"),
        created_at=optional_text(fields.get("created_at"), f"{place}.created_at") or "",
        updated_at=optional_text(fields.get("updated_at"), f"{place}.updated_at") or "",
        embedding=vector_bytes(fields.get("embedding"), f"{place}.embedding"),
        status=status,
        sources=_sources(fields.get("sources"), place, strict=strict),
        merged_into=optional_text(fields.get("merged_into"), f"{place}.merged_into"),
        cases=read_cases(fields.get("cases"), f"{place}.cases"),
    )


def _entries(skills: Any, name: str, section_of: dict[str, str]) -> list[tuple[str, dict[str, Any], str]]:
    """Return id, fields and place of every skill of an object or a list."""
    if isinstance(skills, dict):
        return [(id, object_value(value, f"{name}[{id!r}]"), f"{name}[{id!r}]") for id, value in skills.items()]
    if not isinstance(skills, list):
        raise SkillbookFileError(f"this must be an object or a list, not {shown(skills)}", place=name)
    entries = []
    given = [item["id"] for item in skills if isinstance(item, dict) and isinstance(item.get("id"), str)]
    number = number_after(given)
    for index, item in enumerate(skills):
        place = f"{name}[{index}]"
        fields = object_value(item, place)
        if fields.get("id") is None:
            section = text_value(fields.get("section", ""), f"{place}.section")
            fields = {**fields, "id": skill_id(section, number)}
            number += 1
        entries.append((text_value(fields["id"], f"{place}.id"), fields, place))
    return entries


def _section_of(sections: Any) -> dict[str, str]:
    """Return the section of each listed id."""
    found: dict[str, str] = {}
    for name, ids in object_value(sections or {}, "sections").items():
        for id in member_list(ids, f"sections[{name!r}]"):
            if id in found:
                raise SkillbookFileError(f"{id!r} is listed twice", place=f"sections[{name!r}]")
            found[id] = name
    return found


def _sources(value: Any, skill_place: str, *, strict: bool) -> tuple[InsightSource, ...]:
    if value is None:
        return ()
    place = f"{skill_place}.sources"
    if not isinstance(value, list):
        raise SkillbookFileError(f"this must be a list, not {shown(value)}", place=place)
    return tuple(read_source(item, f"{place}[{index}]", strict=strict) for index, item in enumerate(value))


def read_source(value: Any, place: str, *, strict: bool) -> InsightSource:
    """Read one provenance; what is missing is empty."""
    fields = object_value(value, place)
    unknown = fields.keys() - _KNOWN_SOURCE_FIELDS
    if unknown and strict:
        raise SkillbookFileError("this field is unknown", place=f"{place}.{min(unknown)}")
    if unknown:
        logger.warning("%s: a source has no place for %s", place, ", ".join(sorted(unknown)))

    def text(name: str) -> str:
        return optional_text(fields.get(name), f"{place}.{name}") or ""

    def number(name: str) -> int:
        return whole_number(fields.get(name) or 0, f"{place}.{name}", largest=LARGEST_COUNT)

    return InsightSource(
        trace_id=text("trace_id"),
        sample_question=text("sample_question"),
        epoch=number("epoch"),
        step=number("step"),
        integration=text("integration"),
        error_identification=text("error_identification"),
        learning_text=text("learning_text"),
    )


def read_cases(value: Any, place: str) -> tuple[SkillCase, ...]:
    """Read the cases of a skill, each of which is there once."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SkillbookFileError(f"this must be a list, not {shown(value)}", place=place)
    cases = tuple(_case_from_file(item, f"{place}[{index}]") for index, item in enumerate(value))
    ids: set[str] = set()
    for index, case in enumerate(cases):
        if case.id in ids:
            raise SkillbookFileError(f"the case {case.id!r} is there twice", place=f"{place}[{index}]")
        ids.add(case.id)
    return cases


def _has_our_cases(fields: dict[str, Any]) -> bool:
    """Return whether the cases of a skill, if it has any, are such as ours: elsewhere, the word may mean anything."""
    try:
        read_cases(fields.get("cases"), "")
    except SkillbookFileError:
        return False
    return True


def _case_from_file(value: Any, place: str) -> SkillCase:
    try:
        return SkillCase.from_dict(object_value(value, place))
    except SkillbookFileError:
        raise
    except ValueError as error:
        name, _, reason = str(error).partition(": ")
        raise SkillbookFileError(reason, place=f"{place}.{name}") from error
