"""Reads a book from JSON and refuses what is not one, with the place and the reason.

Files of other frameworks that have the same layout are read by `foreign_json`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import chain
from types import NoneType
from typing import Any

from ace.skill import (
    ACTIVE,
    CASE_RESULTS,
    CHECK_KINDS,
    INVALID,
    TAGS,
    CaseCheck,
    Skill,
    SkillCase,
    case_check_from_fields,
    case_from_fields,
    skill_from_fields,
    source_from_fields,
)
from ace.skillbook.checked import decision_pair, member_list, object_value, shown, whole_number
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.events import LARGEST_COUNT
from ace.skillbook.foreign_json import read_foreign, read_skill
from ace.skillbook.json_write import SCHEMA_VERSION
from ace.skillbook.state import BookContents, number_after, with_citable_ids

_TOP_FIELDS = {"schema_version", "skills", "sections", "next_id", "similarity_decisions"}
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
_SKILL_FIELDS_WITH_CASES = (*_SKILL_FIELDS, "cases")
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
        SkillbookFileError: If they are no skillbook; it tells where and why.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillbookFileError("the file is not UTF-8", place=f"byte {error.start}") from error
    return read_text(text)


def read_text(text: str) -> BookContents:
    """Read the text of a file; see `read_bytes`."""
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
            f"the file has version {shown(version)}, and this ace reads version {SCHEMA_VERSION}; update ace",
            place="schema_version",
        )
    return _read_own(data)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SkillbookFileError(f"no valid JSON: {error.msg}", place=place) from error
    except RecursionError as error:
        raise SkillbookFileError("the JSON is nested too deeply for a skillbook") from error
    except SkillbookFileError:
        raise
    except ValueError as error:
        raise SkillbookFileError(f"a number is too large: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict; a key that is there twice would lose the first value in silence."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise SkillbookFileError("this key is there twice in one object", place=f"key {double!r}")
    return found


def _refuse_constant(name: str) -> None:
    raise SkillbookFileError(f"{name} is no number of JSON")


def _has_unicode_escape(text: str) -> bool:
    """Return whether there is a `\\u` escape: the only way for half of a surrogate pair to get in."""
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
            reason = f"half of a surrogate pair at character {error.start}, which is no text"
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
        raise SkillbookFileError("this field is unknown", place=repr(min(unknown)))
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

    Entries as we write them are checked all at once, and their dicts become the skills. If anything
    about them is unusual, each is read by itself, which tells the place of what is wrong.
    """
    if not entries:
        return []
    if not _all_as_written(entries):
        return [read_skill(id, fields, strict=True) for id, fields in entries.items()]
    names: dict[str, str] = {}
    for id, fields in entries.items():
        fields["id"] = id  # the same text object as the key: its hash is known, and it is held once
        fields["section"] = names.setdefault(fields["section"], fields["section"])
        fields["sources"] = tuple([source_from_fields(source) for source in fields["sources"]])
        fields["embedding"] = fields["merged_into"] = None
        fields["cases"] = tuple(map(_case, fields["cases"])) if "cases" in fields else ()
    return [skill_from_fields(fields) for fields in entries.values()]


def _all_as_written(entries: dict[str, Any]) -> bool:
    """Return whether every entry has just the fields that we write, in this order, with sound values.

    Looks at columns instead of entries: each check is one pass in C.
    """
    rows = list(entries.values())
    columns = _columns(rows, _SKILL_FIELDS, _SKILL_FIELDS_WITH_CASES)
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
        and _all_cases_as_written([fields["cases"] for fields in rows if len(fields) > len(_SKILL_FIELDS)])
    )


def _all_sources_as_written(sources: list[Any]) -> bool:
    if not sources:
        return True
    columns = _columns(sources, _SOURCE_FIELDS)
    return columns is not None and all(
        set(map(type, values)) == ({int} if name in _SOURCE_NUMBERS else {str}) for name, values in columns.items()
    )


def _all_cases_as_written(groups: list[Any]) -> bool:
    """Return whether every skill with cases has a list of them, each once."""
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
    """Return the values of each field, or None if a row is no object with just the fields of a shape in this order.

    Args:
        rows: The rows.
        *shapes: The fields that a row may have; the first ones are those of the first shape, which are returned.
    """
    if set(map(type, rows)) != {dict} or not set(map(tuple, rows)) <= set(shapes):
        return None
    # The columns end with the shortest row: it may lack what the longer shapes have at their end.
    return dict(zip(shapes[0], zip(*map(dict.values, rows), strict=False), strict=False))


def _check_sections(listed: Any, section_of: dict[str, str]) -> None:
    """Refuse section lists that do not fit the skills; their order may differ."""
    if not isinstance(listed, dict):
        raise SkillbookFileError("this must be an object of lists", place="sections")
    seen: set[str] = set()
    for name, ids in listed.items():
        place = f"sections[{name!r}]"
        for id in member_list(ids, place):
            if id in seen:
                raise SkillbookFileError(f"{id!r} is listed twice", place=place)
            if id not in section_of:
                raise SkillbookFileError(f"there is no skill {id!r}", place=place)
            if section_of[id] != name:
                raise SkillbookFileError(f"{id!r} says that it is in section {section_of[id]!r}", place=place)
            seen.add(id)
    if missing := section_of.keys() - seen:
        raise SkillbookFileError(f"{min(missing)!r} is in no list", place="sections")
