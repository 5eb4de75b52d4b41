"""Reads a skillbook from JSON, and rejects invalid files with the place and the reason.

Files that ACE wrote are checked by column, which is fast. Unusual files, such as those of other frameworks with the
same layout or those that were edited by hand, are read value by value.
"""

from __future__ import annotations

import json
import logging
import math
from collections import defaultdict
from itertools import chain
from types import NoneType
from typing import Any

from ace.arguments import instance_of
from ace.skill import (
    ACTIVE,
    CASE_RESULTS,
    CHECK_KINDS,
    INVALID,
    TAGS,
    CaseCheck,
    InsightSource,
    SimilarityDecision,
    Skill,
    SkillCase,
    case_check_from_fields,
    case_from_fields,
    similarity_pair,
    skill_from_fields,
    source_from_fields,
)
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.json_write import LARGEST_COUNT, SCHEMA_VERSION
from ace.skillbook.state import BookContents, number_after, skill_id, with_citable_ids
from ace.skillbook.vectors import vector_bytes

logger = logging.getLogger(__name__)


def text_value(value: Any, place: str) -> str:
    """Return the value, which must be a string."""
    if not isinstance(value, str):
        raise SkillbookFileError(f"must be a string, got {shown(value)}", place=place)
    return value


def optional_text(value: Any, place: str) -> str | None:
    """Return the value, which must be a string or null."""
    return None if value is None else text_value(value, place)


def whole_number(value: Any, place: str, *, largest: int) -> int:
    """Return the value, which must be a whole number from 0 to the largest."""
    if type(value) is not int:
        raise SkillbookFileError(f"must be a whole number, got {shown(value)}", place=place)
    if not 0 <= value <= largest:
        raise SkillbookFileError(f"must be from 0 to {largest}, got {shown(value)}", place=place)
    return value


def truth_value(value: Any, place: str) -> bool:
    """Return the value, which must be true or false."""
    if not isinstance(value, bool):
        raise SkillbookFileError(f"must be true or false, got {shown(value)}", place=place)
    return value


def member_list(value: Any, place: str) -> list[str]:
    """Return the value, which must be a list of ids."""
    if not isinstance(value, list):
        raise SkillbookFileError(f"must be a list of ids, got {shown(value)}", place=place)
    return [text_value(item, f"{place}[{index}]") for index, item in enumerate(value)]


def object_value(value: Any, place: str) -> dict[str, Any]:
    """Return the value, which must be an object."""
    if not isinstance(value, dict):
        raise SkillbookFileError(f"must be an object, got {shown(value)}", place=place)
    return value


def decision_pair(key: str, value: Any) -> tuple[tuple[str, str], SimilarityDecision]:
    """Return a pair of ids and the decision about it."""
    place = f"similarity_decisions[{key!r}]"
    fields = object_value(value, place)
    ids = member_list(fields.get("skill_ids", key.split(",")), place)
    if len(ids) != 2:
        raise SkillbookFileError("the key must be two ids separated by a comma", place=place)
    if unknown := fields.keys() - {"skill_ids", *SimilarityDecision.__dataclass_fields__}:
        raise SkillbookFileError("unknown field", place=f"{place}.{min(unknown)}")
    similarity = fields.get("similarity_at_decision", 0.0)
    if isinstance(similarity, bool) or not isinstance(similarity, int | float) or not math.isfinite(similarity):
        raise SkillbookFileError("must be a number", place=f"{place}.similarity_at_decision")
    decision = SimilarityDecision(
        decision=text_value(fields.get("decision", "KEEP"), f"{place}.decision"),
        reasoning=text_value(fields.get("reasoning", ""), f"{place}.reasoning"),
        decided_at=text_value(fields.get("decided_at", ""), f"{place}.decided_at"),
        similarity_at_decision=float(similarity),
    )
    return similarity_pair(ids[0], ids[1]), decision


def shown(value: Any) -> str:
    """Return the value for an error text, truncated to a readable length."""
    text = str(len(str(value))) + " digits" if type(value) is int and abs(value) > 10**30 else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_TOP_FIELDS = {"schema_version", "skills", "sections", "next_id", "similarity_decisions", "checkpoint"}
"""`checkpoint` is what `CheckpointStep` records about the run; it does not belong to the book."""
_SKILL_FIELDS = (
    "id",
    "section",
    "content",
    "helpful",
    "harmful",
    "neutral",
    "justification",
    "evidence",
    "created_at",
    "updated_at",
    "status",
    "sources",
)
_SKILL_SHAPES = tuple((*_SKILL_FIELDS, *more) for more in ((), ("cases",), ("pinned",), ("pinned", "cases")))
_CASE_FIELDS = tuple(SkillCase.__dataclass_fields__)
_CHECK_FIELDS = tuple(CaseCheck.__dataclass_fields__)
_SOURCE_FIELDS = (
    "trace_id",
    "sample_question",
    "epoch",
    "step",
    "integration",
    "error_identification",
    "learning_text",
)
_SOURCE_NUMBERS = ("epoch", "step")


def read_bytes(data: bytes) -> BookContents:
    """Read the bytes of a file.

    Raises:
        SkillbookFileError: If they are not a skillbook; the error says where and why.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillbookFileError("the file is not UTF-8", place=f"byte {error.start}") from error
    return read_text(text)


def read_text(text: str) -> BookContents:
    """Read the text of a file; see `read_bytes`."""
    instance_of("text", text, str, advice="from_dict reads a dict, load_from_file a file")
    return with_citable_ids(_read_text(text))


def _read_text(text: str) -> BookContents:
    data = _parse(text)
    if _has_unicode_escape(text):
        _refuse_lone_surrogates(data, "the file")
    if not isinstance(data, dict):
        raise SkillbookFileError(f"a skillbook is a JSON object, not {shown(data)}")
    version = data.get("schema_version")
    if type(version) is not int or not isinstance(data.get("skills"), dict):
        return read_foreign(data)
    if version != SCHEMA_VERSION:
        raise SkillbookFileError(
            f"the file has version {shown(version)}, but this version of ace reads version {SCHEMA_VERSION}; "
            "upgrade ace",
            place="schema_version",
        )
    return _read_own(data)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SkillbookFileError(f"not valid JSON: {error.msg}", place=place) from error
    except RecursionError as error:
        raise SkillbookFileError("the JSON is too deeply nested") from error
    except SkillbookFileError:
        raise
    except ValueError as error:
        raise SkillbookFileError("a number has too many digits") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict; reject duplicate keys, which would silently lose the first value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise SkillbookFileError("this key appears twice in one object", place=f"key {double!r}")
    return found


def _refuse_constant(name: str) -> None:
    raise SkillbookFileError(f"{name} is not a JSON number")


def _has_unicode_escape(text: str) -> bool:
    """Return whether there is a `\\u` escape, the only way to encode a lone surrogate."""
    place = text.find("\\")
    while place >= 0:
        if text[place + 1] == "u":
            return True
        place = text.find("\\", place + 2)
    return False


def _refuse_lone_surrogates(value: Any, place: str) -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            reason = f"lone surrogate at character {error.start}"
            raise SkillbookFileError(reason, place=place) from error
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_lone_surrogates(key, f"a key of {place}")
            _refuse_lone_surrogates(item, repr(key))
    elif isinstance(value, list):
        for item in value:
            _refuse_lone_surrogates(item, place)


def _read_own(data: dict[str, Any]) -> BookContents:
    """Read a file of our own format."""
    if unknown := data.keys() - _TOP_FIELDS:
        raise SkillbookFileError("unknown field", place=repr(min(unknown)))
    contents = BookContents(read_entries(data["skills"]))
    if "sections" in data:
        sections: defaultdict[str, list[str]] = defaultdict(list)
        for skill in contents.skills:
            sections[skill.section].append(skill.id)
        if data["sections"] != sections:
            _check_sections(data["sections"], {skill.id: skill.section for skill in contents.skills})
    decisions = object_value(data.get("similarity_decisions", {}), "similarity_decisions")
    for key, fields in decisions.items():
        pair, decision = decision_pair(key, fields)
        contents.decisions[pair] = decision
    if "next_id" in data:
        contents.next_id = max(1, whole_number(data["next_id"], "next_id", largest=LARGEST_COUNT))
    else:
        contents.next_id = number_after(data["skills"])
    return contents


def read_entries(entries: dict[str, Any]) -> list[Skill]:
    """Read skills by id.

    Entries as ACE writes them are checked all at once, and their dicts become the skills. If anything about them is
    unusual, each is read separately, which determines the place of the error.
    """
    if not entries:
        return []
    if not _all_as_written(entries):
        return [read_skill(id, fields, strict=True) for id, fields in entries.items()]
    names: dict[str, str] = {}
    for id, fields in entries.items():
        fields["id"] = id  # the string object of the key: its hash is cached, and it is stored once
        fields["section"] = names.setdefault(fields["section"], fields["section"])
        fields["sources"] = tuple([source_from_fields(source) for source in fields["sources"]])
        fields["embedding"] = fields["merged_into"] = None
        fields["cases"] = tuple(map(_case, fields["cases"])) if "cases" in fields else ()
        fields.setdefault("pinned", False)
    return [skill_from_fields(fields) for fields in entries.values()]


def _all_as_written(entries: dict[str, Any]) -> bool:
    """Return whether every entry has exactly the fields that ACE writes, in this order, with valid values.

    Looks at columns instead of entries: each check is one pass in C.
    """
    rows = list(entries.values())
    columns = _columns(rows, *_SKILL_SHAPES)
    if columns is None:
        return False
    types = {name: set(map(type, values)) for name, values in columns.items()}
    counts = [columns[tag] for tag in TAGS]
    return (
        all(entries)
        and columns["id"] == tuple(entries)
        and all(types[name] == {str} for name in ("section", "content", "created_at", "updated_at", "status"))
        and all(types[name] <= {str, NoneType} for name in ("justification", "evidence"))
        and all(types[tag] == {int} for tag in TAGS)
        and min(map(min, counts)) >= 0
        and max(map(max, counts)) <= LARGEST_COUNT
        and all(columns["content"])
        and not any(map(str.isspace, columns["content"]))
        and set(columns["status"]) <= {ACTIVE, INVALID}
        and types["sources"] == {list}
        and _all_sources_as_written(list(chain.from_iterable(columns["sources"])))
        and all(fields["pinned"] is True for fields in rows if "pinned" in fields)
        and _all_cases_as_written([fields["cases"] for fields in rows if "cases" in fields])
    )


def _all_sources_as_written(sources: list[Any]) -> bool:
    if not sources:
        return True
    columns = _columns(sources, _SOURCE_FIELDS)
    return columns is not None and all(
        set(map(type, values)) == ({int} if name in _SOURCE_NUMBERS else {str}) for name, values in columns.items()
    )


def _all_cases_as_written(groups: list[Any]) -> bool:
    """Return whether all cases are as ACE writes them: non-empty lists of valid cases without duplicates."""
    if not groups:
        return True
    if set(map(type, groups)) != {list} or not all(groups):
        return False
    columns = _columns(list(chain.from_iterable(groups)), _CASE_FIELDS)
    if columns is None:
        return False
    checks = _columns(list(columns.pop("check")), _CHECK_FIELDS)
    return (
        checks is not None
        and all(set(map(type, values)) == {str} for values in (*columns.values(), *checks.values()))
        and set(checks["kind"]) <= set(CHECK_KINDS)
        and set(columns["last_result"]) <= set(CASE_RESULTS)
        and all(map(str.strip, columns["id"]))
        and all(map(str.strip, columns["question"]))
        and all(len({case["id"] for case in cases}) == len(cases) for cases in groups)
    )


def _case(fields: dict[str, Any]) -> SkillCase:
    fields["check"] = case_check_from_fields(fields["check"])
    return case_from_fields(fields)


def _columns(rows: list[Any], *shapes: tuple[str, ...]) -> dict[str, tuple[Any, ...]] | None:
    """Return the values of each field, or None if a row is not an object with exactly the fields of a shape.

    Args:
        *shapes: The fields that a row may have. Each shape begins with the first one, whose fields are returned.
    """
    if set(map(type, rows)) != {dict} or not set(map(tuple, rows)) <= set(shapes):
        return None
    # `zip` stops at the shortest row, which may lack the last fields of the longer shapes.
    return dict(zip(shapes[0], zip(*map(dict.values, rows), strict=False), strict=False))


def _check_sections(listed: Any, section_of: dict[str, str]) -> None:
    """Reject section lists that do not match the skills; their order may differ."""
    if not isinstance(listed, dict):
        raise SkillbookFileError("must be an object of lists", place="sections")
    seen: set[str] = set()
    for name, ids in listed.items():
        place = f"sections[{name!r}]"
        for id in member_list(ids, place):
            if id in seen:
                raise SkillbookFileError(f"{id!r} is listed twice", place=place)
            if id not in section_of:
                raise SkillbookFileError(f"no such skill: {id!r}", place=place)
            if section_of[id] != name:
                raise SkillbookFileError(f"{id!r} is in section {section_of[id]!r}", place=place)
            seen.add(id)
    if missing := section_of.keys() - seen:
        raise SkillbookFileError(f"{min(missing)!r} is missing from all lists", place="sections")


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

    Unsupported fields are listed in a warning and in `ignored_fields`.
    """
    name = next((name for name in ("skills", "bullets") if name in data), None)
    if name is None:
        raise SkillbookFileError("the object 'skills' is missing")
    version = data.get("schema_version", "")
    if isinstance(version, bool) or not isinstance(version, str | int):
        raise SkillbookFileError(f"must be a number or a string, got {shown(version)}", place="schema_version")
    section_of = _section_of(data.get("sections", {}))
    ignored = data.keys() - _FOREIGN_FIELDS
    contents = BookContents()
    seen: set[str] = set()
    for id, fields, place in _entries(data[name], name, section_of):
        if id in seen:
            raise SkillbookFileError(f"the id {id!r} appears twice", place=place)
        seen.add(id)
        fields = {"section": section_of.get(id, ""), **fields}
        if not _has_our_cases(fields):
            ignored |= {f"{name}.cases"}
            del fields["cases"]
        if not isinstance(fields.get("pinned", False), bool):  # other frameworks may use this name for something else
            ignored |= {f"{name}.pinned"}
            del fields["pinned"]
        ignored |= {f"{name}.{field}" for field in fields.keys() - _KNOWN_SKILL_FIELDS - set(_CONTENT_NAMES)}
        contents.skills.append(read_skill(id, fields, strict=False))
    if unknown := section_of.keys() - seen:
        raise SkillbookFileError(f"no such skill: {min(unknown)!r}", place=f"sections[{section_of[min(unknown)]!r}]")
    for key, fields in object_value(data.get("similarity_decisions") or {}, "similarity_decisions").items():
        pair, decision = decision_pair(key, fields)
        contents.decisions[pair] = decision
    next_id = whole_number(data.get("next_id", 1), "next_id", largest=LARGEST_COUNT)
    contents.next_id = max(next_id, number_after(seen))
    contents.ignored_fields = tuple(sorted(ignored))
    if ignored:
        logger.warning("These fields of the file are not supported and were ignored: %s", ", ".join(sorted(ignored)))
    return contents


def read_skill(id: str, data: Any, *, strict: bool) -> Skill:
    """Read one skill.

    Args:
        id: Its id.
        data: Its fields; all but section and content may be missing.
        strict: Whether to reject unknown fields.
    """
    place = f"skills[{id!r}]"
    fields = object_value(data, place)
    if strict and (unknown := fields.keys() - _KNOWN_SKILL_FIELDS | fields.keys() & {"metadata"}):
        raise SkillbookFileError("unknown field", place=f"{place}.{min(unknown)}")
    if fields.get("id", id) != id:
        raise SkillbookFileError(f"the field id has a different value: {shown(fields['id'])}", place=place)
    if not id:
        raise SkillbookFileError("an id cannot be empty", place=place)
    content = next((fields[name] for name in _CONTENT_NAMES if name in fields), None)
    if not text_value(content, f"{place}.content").strip():
        raise SkillbookFileError("must not be empty", place=f"{place}.content")
    if "section" not in fields:
        raise SkillbookFileError("this field is missing", place=f"{place}.section")
    status = fields.get("status", ACTIVE)
    if status not in (ACTIVE, INVALID):
        raise SkillbookFileError(f"must be {ACTIVE!r} or {INVALID!r}, got {shown(status)}", place=f"{place}.status")
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
        sources=read_sources(fields.get("sources"), f"{place}.sources", strict=strict),
        merged_into=optional_text(fields.get("merged_into"), f"{place}.merged_into"),
        cases=read_cases(fields.get("cases"), f"{place}.cases"),
        pinned=truth_value(fields.get("pinned", False), f"{place}.pinned"),
    )


def _entries(skills: Any, name: str, section_of: dict[str, str]) -> list[tuple[str, dict[str, Any], str]]:
    """Return id, fields and place of every skill of an object or a list."""
    if isinstance(skills, dict):
        return [(id, object_value(value, f"{name}[{id!r}]"), f"{name}[{id!r}]") for id, value in skills.items()]
    if not isinstance(skills, list):
        raise SkillbookFileError(f"must be an object or a list, got {shown(skills)}", place=name)
    entries = []
    ids = [item["id"] for item in skills if isinstance(item, dict) and isinstance(item.get("id"), str)]
    number = number_after(ids)
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


def read_sources(value: Any, place: str, *, strict: bool = True) -> tuple[InsightSource, ...]:
    """Read a list of sources; None means that there are none."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SkillbookFileError(f"must be a list, got {shown(value)}", place=place)
    return tuple(read_source(item, f"{place}[{index}]", strict=strict) for index, item in enumerate(value))


def read_source(value: Any, place: str, *, strict: bool) -> InsightSource:
    """Read one source; missing fields are empty."""
    fields = object_value(value, place)
    unknown = fields.keys() - _KNOWN_SOURCE_FIELDS
    if unknown and strict:
        raise SkillbookFileError("unknown field", place=f"{place}.{min(unknown)}")
    if unknown:
        logger.warning("%s: unsupported fields of a source were ignored: %s", place, ", ".join(sorted(unknown)))

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
    """Read the cases of a skill, which must not contain duplicates."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SkillbookFileError(f"must be a list, got {shown(value)}", place=place)
    cases = tuple(_case_from_file(item, f"{place}[{index}]") for index, item in enumerate(value))
    ids: set[str] = set()
    for index, case in enumerate(cases):
        if case.id in ids:
            raise SkillbookFileError(f"the case {case.id!r} appears twice", place=f"{place}[{index}]")
        ids.add(case.id)
    return cases


def _has_our_cases(fields: dict[str, Any]) -> bool:
    """Return whether the field `cases` has our format: other frameworks may use the name for something else."""
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
