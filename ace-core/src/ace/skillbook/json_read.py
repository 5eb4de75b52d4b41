"""Reads a skillbook from JSON, and rejects invalid files with the place and the reason.

Files that ACE wrote are checked by column. Unusual files, such as those of other frameworks with the same layout or
those that were edited by hand, are read by pydantic, which says what is wrong. The columns are there because importing
pydantic takes longer than reading some thousand skills, and a hook of a coding agent opens a skillbook at every prompt.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
from collections import defaultdict
from itertools import chain
from types import NoneType
from typing import Any, TypeVar

from ace._internal.arguments import instance_of
from ace._internal.decoding import LARGEST_COUNT, Count, DecodingError, decoded, shown
from ace.skill import (
    CASE_RESULTS,
    CHECK_KINDS,
    EVIDENCES,
    STATUSES,
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
from ace.skillbook.json_write import SCHEMA_VERSION
from ace.skillbook.state import BookContents, number_after, skill_id, with_citable_ids
from ace.skillbook.vectors import vector_bytes

T = TypeVar("T")

logger = logging.getLogger(__name__)


def checked(form: type[T], value: object, place: str) -> T:
    """Return a value as an instance of a type.

    Args:
        form: The type, see `ace._internal.decoding.decoded`.
        place: The place of the value in the file, for the error.

    Raises:
        SkillbookFileError: The value does not have this form.
    """
    try:
        return decoded(form, value)
    except DecodingError as error:
        raise SkillbookFileError(error.reason, place=f"{place}{error.place}".removeprefix(".")) from None


def count_value(value: Any, place: str) -> int:
    """Return the value, which must be a whole number from 0 to `LARGEST_COUNT`."""
    is_count = type(value) is int and 0 <= value <= LARGEST_COUNT
    return value if is_count else checked(Count, value, place)


def object_value(value: Any, place: str) -> dict[str, Any]:
    """Return the value, which must be an object."""
    if not isinstance(value, dict):
        raise SkillbookFileError(f"must be an object, got {shown(value)}", place=place)
    return value


def decision_pair(key: str, value: Any) -> tuple[tuple[str, str], SimilarityDecision]:
    """Return a pair of ids and the decision about it."""
    place = f"similarity_decisions[{key!r}]"
    fields = dict(object_value(value, place))
    ids = fields.pop("skill_ids", key.split(","))
    if not (isinstance(ids, list) and len(ids) == 2 and set(map(type, ids)) == {str}):
        raise SkillbookFileError("the key must be two ids separated by a comma", place=place)
    is_as_written = {name: type(field) for name, field in fields.items()} == _DECISION_TYPES
    if is_as_written and math.isfinite(fields["similarity_at_decision"]):
        decision = SimilarityDecision(**fields)
    else:
        decision = checked(SimilarityDecision, fields, place)
    return similarity_pair(ids[0], ids[1]), decision


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
_FIELDS_IF_ANY = ("merged_into", "pinned", "cases", "reason")
_SKILL_SHAPES = tuple(
    (*_SKILL_FIELDS, *more)
    for count in range(len(_FIELDS_IF_ANY) + 1)
    for more in itertools.combinations(_FIELDS_IF_ANY, count)
)
_EVIDENCE = "evidence"
"""The last field of a case or a source, which is omitted if it has its default."""
_CASE_FIELDS = tuple(name for name in SkillCase.__dataclass_fields__ if name != _EVIDENCE)
_CHECK_FIELDS = tuple(CaseCheck.__dataclass_fields__)
_SOURCE_FIELDS = tuple(name for name in InsightSource.__dataclass_fields__ if name != _EVIDENCE)
_SOURCE_NUMBERS = ("epoch", "step")
_DECISION_TYPES = {"decision": str, "reasoning": str, "decided_at": str, "similarity_at_decision": float}


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
        contents.next_id = max(1, count_value(data["next_id"], "next_id"))
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
        return [read_skill(id, fields) for id, fields in entries.items()]
    names: dict[str, str] = {}
    for id, fields in entries.items():
        fields["id"] = id  # the string object of the key: its hash is cached, and it is stored once
        fields["section"] = names.setdefault(fields["section"], fields["section"])
        fields["sources"] = tuple(map(_source, fields["sources"]))
        if len(fields) == len(_SKILL_FIELDS):
            fields["merged_into"], fields["pinned"], fields["cases"], fields["reason"] = None, False, (), ""
        else:
            fields.setdefault("merged_into", None)
            fields.setdefault("pinned", False)
            fields.setdefault("reason", "")
            fields["cases"] = tuple(map(_case, fields.get("cases", ())))
        fields["embedding"] = None
    return [skill_from_fields(fields) for fields in entries.values()]


def _all_as_written(entries: dict[str, Any]) -> bool:
    """Return whether every entry has exactly the fields that ACE writes, in this order, with valid values.

    Looks at columns instead of entries: each check is one pass in C.
    """
    rows = list(entries.values())
    columns = _columns(rows, *_SKILL_SHAPES)
    if columns is None:
        return False
    longer = [fields for fields in rows if len(fields) > len(_SKILL_FIELDS)]
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
        and set(columns["status"]) <= set(STATUSES)
        and types["sources"] == {list}
        and _all_sources_as_written(list(chain.from_iterable(columns["sources"])))
        and all(fields.get("pinned", True) is True for fields in longer)
        and all(type(fields.get(name, "")) is str for name in ("merged_into", "reason") for fields in longer)
        and _all_cases_as_written([fields["cases"] for fields in longer if "cases" in fields])
    )


def _all_sources_as_written(sources: list[Any]) -> bool:
    if not sources:
        return True
    columns = _columns(sources, _SOURCE_FIELDS, (*_SOURCE_FIELDS, _EVIDENCE))
    if columns is None or not _have_valid_evidence(sources):
        return False
    numbers = [columns.pop(name) for name in _SOURCE_NUMBERS]
    return (
        all(set(map(type, values)) == {int} for values in numbers)
        and min(map(min, numbers)) >= 0
        and max(map(max, numbers)) <= LARGEST_COUNT
        and all(set(map(type, values)) == {str} for values in columns.values())
    )


def _all_cases_as_written(groups: list[Any]) -> bool:
    """Return whether all cases are as ACE writes them: non-empty lists of valid cases without duplicates."""
    if not groups:
        return True
    if set(map(type, groups)) != {list} or not all(groups):
        return False
    rows = list(chain.from_iterable(groups))
    columns = _columns(rows, _CASE_FIELDS, (*_CASE_FIELDS, _EVIDENCE))
    if columns is None or not _have_valid_evidence(rows):
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


def _have_valid_evidence(rows: list[dict[str, Any]]) -> bool:
    return all(row[_EVIDENCE] in EVIDENCES for row in rows if _EVIDENCE in row)


def _source(fields: dict[str, Any]) -> InsightSource:
    fields.setdefault(_EVIDENCE, "none")
    return source_from_fields(fields)


def _case(fields: dict[str, Any]) -> SkillCase:
    fields.setdefault(_EVIDENCE, "truth")
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
        for id in checked(list[str], ids, place):
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
_CONTENT_NAMES = ("content", "text", "insight")
_OTHER_NAMES = {"metadata", *_CONTENT_NAMES}


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
        if fields.get("cases") is not None and not _has_our_cases(fields):
            ignored |= {f"{name}.cases"}
            del fields["cases"]
        if not isinstance(fields.get("pinned", False), bool):  # other frameworks may use this name for something else
            ignored |= {f"{name}.pinned"}
            del fields["pinned"]
        if not isinstance(fields.get("reason", ""), str):
            ignored |= {f"{name}.reason"}
            del fields["reason"]
        ignored |= {f"{name}.{field}" for field in fields.keys() - Skill.__dataclass_fields__.keys() - _OTHER_NAMES}
        contents.skills.append(read_skill(id, _our_fields(fields, f"skills[{id!r}]")))
    if unknown := section_of.keys() - seen:
        raise SkillbookFileError(f"no such skill: {min(unknown)!r}", place=f"sections[{section_of[min(unknown)]!r}]")
    for key, fields in object_value(data.get("similarity_decisions") or {}, "similarity_decisions").items():
        pair, decision = decision_pair(key, fields)
        contents.decisions[pair] = decision
    next_id = count_value(data.get("next_id", 1), "next_id")
    contents.next_id = max(next_id, number_after(seen))
    contents.ignored_fields = tuple(sorted(ignored))
    if ignored:
        logger.warning("These fields of the file are not supported and were ignored: %s", ", ".join(sorted(ignored)))
    return contents


def _our_fields(fields: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the fields of a skill under our names, without unsupported ones."""
    counters = object_value(fields.get("metadata") or {}, f"{place}.metadata")
    ours = {name: value for name, value in {**counters, **fields}.items() if name in Skill.__dataclass_fields__}
    ours["content"] = next((fields[name] for name in _CONTENT_NAMES if name in fields), None)
    if isinstance(sources := fields.get("sources"), list):
        ours["sources"] = [_our_source(source, f"{place}.sources[{index}]") for index, source in enumerate(sources)]
    return ours


def _our_source(source: Any, place: str) -> Any:
    if not isinstance(source, dict):
        return source
    if unknown := source.keys() - _SOURCE_FIELDS:
        logger.warning("%s: unsupported fields of a source were ignored: %s", place, ", ".join(sorted(unknown)))
    return {name: value for name, value in source.items() if name in _SOURCE_FIELDS}


_MAY_BE_NULL = {"created_at", "updated_at", "embedding", "sources", "cases"}
"""Fields of a skill that may be null in a file although they never are in a skill."""


def read_skill(id: str, data: Any) -> Skill:
    """Read one skill.

    Args:
        id: Its id.
        data: Its fields; all but section and content may be missing.
    """
    place = f"skills[{id!r}]"
    fields_of_skill = object_value(data, place)
    if fields_of_skill.get("id", id) != id:
        raise SkillbookFileError(f"the field id has a different value: {shown(fields_of_skill['id'])}", place=place)
    if not id:
        raise SkillbookFileError("an id cannot be empty", place=place)
    fields = {name: value for name, value in fields_of_skill.items() if value is not None or name not in _MAY_BE_NULL}
    fields |= {"id": id, "embedding": vector_bytes(fields_of_skill.get("embedding"), f"{place}.embedding")}
    if isinstance(sources := fields.get("sources"), list):
        fields["sources"] = list(map(_without_nulls, sources))
    if "cases" in fields:
        fields["cases"] = read_cases(fields["cases"], f"{place}.cases")
    skill = checked(Skill, fields, place)
    if not skill.content.strip():
        raise SkillbookFileError("must not be empty", place=f"{place}.content")
    return skill


def _without_nulls(source: Any) -> Any:
    if not isinstance(source, dict):
        return source
    return {name: value for name, value in source.items() if value is not None or name not in _SOURCE_FIELDS}


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
            section = checked(str, fields.get("section", ""), f"{place}.section")
            fields = {**fields, "id": skill_id(section, number)}
            number += 1
        entries.append((checked(str, fields["id"], f"{place}.id"), fields, place))
    return entries


def _section_of(sections: Any) -> dict[str, str]:
    """Return the section of each listed id."""
    found: dict[str, str] = {}
    for name, ids in object_value(sections or {}, "sections").items():
        for id in checked(list[str], ids, f"sections[{name!r}]"):
            if id in found:
                raise SkillbookFileError(f"{id!r} is listed twice", place=f"sections[{name!r}]")
            found[id] = name
    return found


def read_cases(value: Any, place: str) -> tuple[SkillCase, ...]:
    """Read the cases of a skill, which must not contain duplicates."""
    cases = []
    ids: set[str] = set()
    for index, item in enumerate(checked(list[Any], value, place)):
        try:
            case = SkillCase.from_dict(object_value(item, f"{place}[{index}]"))
        except DecodingError as error:
            raise SkillbookFileError(error.reason, place=f"{place}[{index}]{error.place}") from None
        cases.append(case)
        if case.id in ids:
            raise SkillbookFileError(f"the case {case.id!r} appears twice", place=f"{place}[{index}]")
        ids.add(case.id)
    return tuple(cases)


def _has_our_cases(fields: dict[str, Any]) -> bool:
    """Return whether the field `cases` has our format: other frameworks may use the name for something else."""
    try:
        read_cases(fields["cases"], "")
    except SkillbookFileError:
        return False
    return True
