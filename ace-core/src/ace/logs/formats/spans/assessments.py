"""What persons and judges said about a run in a tracing tool, and what this says about its success."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from ace.logs.building import text_of
from ace.logs.outcomes import Outcome, number_of, success_of

__all__ = ["Assessment", "assessments_in", "outcome_of"]

_HOLDERS: Final = ("annotation", "feedback", "expectation", "result", "payload")
_NAMES: Final = ("name", "assessment_name", "key", "feedback_type")
_VALUES: Final = ("label", "stringValue", "string_value", "value", "score", "avg", "emoji", "output")
_NUMBERS: Final = ("score", "value", "avg")
_COMMENTS: Final = ("comment", "explanation", "rationale", "note", "comments")
_SOURCES: Final = ("annotator_kind", "source_type", "source", "annotatorKind")
_PERSONS: Final = frozenset({"human", "annotation", "user", "app", "person"})
_MACHINES: Final = frozenset({"llm", "code", "eval", "model", "auto_eval", "llm_judge", "ai_judge"})
_SIGNS: Final = {"👍": True, "👎": False}
_CORRECTNESS: Final = re.compile(
    r"correct|success|pass|accura|resolved|solved|complet|verdict|grade|user|human|thumb|overall|quality", re.IGNORECASE
)
_NOT_OF_SUCCESS: Final = re.compile(
    r"toxic|hallucinat|harm|bias|pii|risk|latency|cost|token|duration|length|refus|jailbreak|error|incorrect|fail|count",
    re.IGNORECASE,
)
"""Names of which a high value is bad, or says nothing about success."""
_ON_A_SCALE: Final = re.compile(r"rating|stars|nps|csat", re.IGNORECASE)
"""Names of numbers of which 1 may be the worst."""


class Assessment(NamedTuple):
    """What one person or judge said about a run."""

    name: str
    value: object
    """A word, a number or a boolean; None if there is only a comment."""
    score: float | None = None
    comment: str = ""
    source: Literal["person", "machine", ""] = ""
    """Who said it; empty if that is not known."""
    is_truth: bool = False
    """Whether the value is the right answer."""

    @property
    def success(self) -> bool | None:
        """Whether it says that the run succeeded."""
        if self.is_truth or _NOT_OF_SUCCESS.search(self.name):
            return None
        if isinstance(self.value, str) and self.value in _SIGNS:
            return _SIGNS[self.value]
        decided = success_of(self.value, is_number=True)
        if decided is None and self.score is not None:
            decided = success_of(self.score, is_number=True)
        return None if _ON_A_SCALE.search(self.name) and number_of(self.value) is not None else decided

    def lines(self) -> Iterator[str]:
        """Yield it as text; what a person wrote is a line of its own, as corrections in it are then found."""
        result = f"{self.name}: {text_of(self.value)}" if self.value is not None else self.name
        if self.comment and self.source != "machine":
            yield self.comment
            yield result
        elif self.comment:
            yield f"{result} ({self.comment})"
        else:
            yield result


def assessments_in(value: object, source: Literal["person", "machine", ""] = "") -> Iterator[Assessment]:
    """Yield the assessments in a field of an export.

    Args:
        value: A list of objects with a name, a value and perhaps a comment, or an object of values by their names.
        source: Who said it, if the export does not say.
    """
    if isinstance(value, dict):
        value = [{"name": name, **_fields(item)} for name, item in value.items()]
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and (found := _assessment(item, source)) is not None:
            yield found


def _fields(item: object) -> Mapping[str, Any]:
    return {str(name): inner for name, inner in item.items()} if isinstance(item, dict) else {"value": item}


def _assessment(fields: Mapping[str, Any], source: Literal["person", "machine", ""]) -> Assessment | None:
    is_truth = bool(fields.get("expectation")) or fields.get("dataType") == "CORRECTION"
    for holder in _HOLDERS:
        inner = fields.get(holder)
        fields = {**fields, **inner} if isinstance(inner, dict) else fields
    origin = fields.get("source")
    if isinstance(origin, dict):
        fields = {**fields, **origin}
    value = _first(fields, _VALUES)
    comment = _first(fields, _COMMENTS)
    if value is None and comment is None:
        return None
    said = "\n".join(map(text_of, comment)) if isinstance(comment, list) else text_of(comment)
    return Assessment(
        name=text_of(_first(fields, _NAMES)) or "score",
        value=value,
        score=next((number for name in _NUMBERS if (number := number_of(fields.get(name))) is not None), None),
        comment=said,
        source=_source(fields) or source,
        is_truth=is_truth,
    )


def _source(fields: Mapping[str, Any]) -> Literal["person", "machine", ""]:
    words = {text_of(fields.get(name)).lower() for name in _SOURCES}
    if words & _PERSONS:
        return "person"
    return "machine" if words & _MACHINES else ""


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((fields[name] for name in names if fields.get(name) not in (None, "", [])), None)


def outcome_of(assessments: Sequence[Assessment]) -> Outcome:
    """Return what assessments say about success: a person's count most, and then those of a name such as `correct`.

    Those that count most must agree.

    Args:
        assessments: The assessments of a run.
    """
    deciding = [found for found in assessments if found.success is not None]
    if not deciding:
        scored = [found for found in assessments if found.score is not None]
        only = scored[0] if len(scored) == 1 else None
        return Outcome(None, only.score, only.name) if only else Outcome(None, None, "")
    most = max(map(_weight, deciding))
    heaviest = [found for found in deciding if _weight(found) == most]
    first = heaviest[0]
    if len({found.success for found in heaviest}) > 1:
        return Outcome(None, None, "")
    return Outcome(first.success, first.score, first.name)


def _weight(assessment: Assessment) -> tuple[int, bool]:
    return ("machine", "", "person").index(assessment.source), bool(_CORRECTNESS.search(assessment.name))
