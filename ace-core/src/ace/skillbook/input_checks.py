"""What comes from callers and models, checked before it becomes an event: nothing unreadable gets into a book."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ace.skill import (
    CASE_RESULTS,
    CHECK_KINDS,
    TAGS,
    CaseCheck,
    InsightSource,
    SimilarityDecision,
    SkillCase,
    join_cases,
)
from ace.skillbook.changes import LARGEST_COUNT
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.identity import is_citable
from ace.updates import UpdateOperation


def check_text(text: str, name: str) -> None:
    """Refuse what is no text, or half of a surrogate pair, which no file can hold."""
    if not isinstance(text, str):
        raise EventRefusedError(f"{name} is a text, not {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            reason = f"half of a surrogate pair at character {error.start}, which is no text"
            raise EventRefusedError(f"{name}: {reason}") from error


def check_content(content: str) -> None:
    """Refuse a content that is empty or no text."""
    check_text(content, "content")
    if not content or content.isspace():
        raise EventRefusedError("the content is empty")


def check_section(section: str) -> str:
    """Return the section on one line, without blanks around it."""
    check_text(section, "section")
    return section if section.isalnum() else " ".join(section.split())


def check_id(skill_id: str) -> None:
    """Refuse an id that could not be cited in brackets."""
    check_text(skill_id, "skill_id")
    if not is_citable(skill_id):
        raise EventRefusedError(f"{skill_id!r} is not an id: it must be visible, without blanks and brackets")


def check_counters(counters: Mapping[str, object]) -> dict[str, int]:
    """Return the counters, which are whole numbers from 0 under the known tags."""
    if not isinstance(counters, Mapping):
        raise EventRefusedError(f"metadata is an object of counters, not {type(counters).__name__}")
    checked = {}
    for tag, increment in counters.items():
        if tag not in TAGS:
            raise EventRefusedError(f"{tag!r} is no tag; use {', '.join(TAGS)}")
        if not isinstance(increment, int) or isinstance(increment, bool) or not 0 <= increment <= LARGEST_COUNT:
            raise EventRefusedError(f"{tag} goes up by a whole number from 0, not by {increment!r}")
        checked[tag] = increment
    return checked


def check_source(source: InsightSource) -> InsightSource:
    """Return the source, whose fields must be such as a file holds them."""
    if not isinstance(source, InsightSource):
        raise EventRefusedError(f"insight_source is an InsightSource, not {type(source).__name__}")
    for name, value in source.__dict__.items():
        if name in ("epoch", "step"):
            if type(value) is not int or not 0 <= value <= LARGEST_COUNT:
                raise EventRefusedError(f"insight_source.{name} is a whole number from 0, not {value!r}")
        else:
            check_text(value, f"insight_source.{name}")
    return source


def check_cases(cases: Sequence[SkillCase]) -> tuple[SkillCase, ...]:
    """Return the cases, each once, whose fields must be such as a file holds them."""
    given: object = cases
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise EventRefusedError(f"cases is a list of SkillCase, not {type(given).__name__}")
    for index, case in enumerate(cases):
        _check_case(case, f"cases[{index}]")
    return join_cases(cases)


def _check_case(case: object, place: str) -> None:
    check: object = getattr(case, "check", None)
    if not isinstance(case, SkillCase) or not isinstance(check, CaseCheck):
        raise EventRefusedError(f"{place} is a SkillCase with a CaseCheck, not {case!r:.100}")
    for name, value in {**case.__dict__, **case.check.__dict__}.items():
        if name != "check":
            check_text(value, f"{place}.{name}")
    for name in ("id", "question"):
        if not getattr(case, name).strip():
            raise EventRefusedError(f"{place}.{name} is empty")
    if case.check.kind not in CHECK_KINDS:
        raise EventRefusedError(f"{place}.check.kind is one of {', '.join(CHECK_KINDS)}, not {case.check.kind!r}")
    if case.last_result not in CASE_RESULTS:
        raise EventRefusedError(f"{place}.last_result is one of {', '.join(CASE_RESULTS)}, not {case.last_result!r}")


def check_decision(decision: SimilarityDecision) -> SimilarityDecision:
    """Return the decision with a plain number, as a file holds it."""
    for name in ("decision", "reasoning", "decided_at"):
        check_text(getattr(decision, name), name)
    similarity = float(decision.similarity_at_decision)
    if not math.isfinite(similarity):
        raise EventRefusedError(f"a similarity is a number, not {similarity}")
    return replace(decision, similarity_at_decision=similarity)


def check_operation(operation: UpdateOperation) -> None:
    """Refuse an operation whose texts or source have the wrong type; the constructor takes anything."""
    for name in ("section", "content", "skill_id", "justification", "evidence"):
        if (text := getattr(operation, name)) is not None:
            check_text(text, name)
    if operation.insight_source is not None:
        check_source(operation.insight_source)
    if operation.cases:
        check_cases(operation.cases)
