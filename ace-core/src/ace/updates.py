"""The output of a skill manager: a batch of operations on a skillbook."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ace._internal.arguments import instance_of, shown
from ace.skill import EVIDENCES, TAGS, Evidence, InsightSource, SkillCase

EVIDENCE_TRACES: Final = "evidence_traces"
"""The key in the metadata of an operation that lists all traces that taught it."""

_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)

OPERATION_TYPES: Final = ("ADD", "UPDATE", "TAG", "REMOVE")


@dataclass(frozen=True, slots=True)
class UpdateOperation:
    """One change to a skillbook.

    The constructor takes any type, in any case; an unknown type is skipped and reported when the
    batch is applied, and refused by `from_dict`, which reads what a model wrote.

    Example:
        >>> UpdateOperation("add", section="geography", content="Paris is the capital of France.").type
        'ADD'
    """

    type: str
    """ADD, UPDATE, TAG or REMOVE; kept in upper case."""
    section: str = ""
    """The section of a new skill; for UPDATE, an empty one does not change the section."""
    content: str | None = None
    """The text of the skill."""
    skill_id: str | None = None
    """The id of the skill to change. Omit it for ADD, because the book assigns the id."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    """Counters by tag, such as `helpful` with 1; TAG adds them, and a new skill starts with them.

    With a counter that is not a whole number, the operation is skipped and reported when the batch is applied.
    `evidence_traces` is not a counter: a list of the ids of all traces that taught the skill, if they are several. Each
    of them becomes a source of the skill; `insight_source` describes the first.
    """
    justification: str | None = None
    """The reason for the change."""
    evidence: str | None = None
    """The evidence in the trace."""
    insight_source: InsightSource | None = None
    """The trace that it was learned from."""
    cases: Sequence[SkillCase] = ()
    """For ADD and UPDATE: the cases that prove the skill, kept as a tuple; an UPDATE joins them to those of the skill.

    With a new content, the results of the cases that are not given here are reset to `not_run`.
    """
    pending: str = ""
    """Why what it says is not shown to agents yet: an ADD makes a pending skill with this reason. An UPDATE with a
    reason leaves the text of the skill as it is; one without it makes a pending skill active.

    `UpdateStep` sets it where no one judged the answer, and a failed proof where its case fails. `ApplyStep` omits the
    update of a role that changes a pending skill: it becomes active by a person, or by an addition that says the same.
    """

    def __post_init__(self) -> None:
        type_: object = self.type
        if isinstance(type_, str):
            object.__setattr__(self, "type", type_.strip().upper())
        if isinstance(self.cases, list):
            object.__setattr__(self, "cases", tuple(self.cases))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UpdateOperation:
        """Parse an operation in the form in which models write it.

        The type may be in any case, and everything that the type does not need may be missing.

        Args:
            data: The object that the model returned.

        Returns:
            The operation, with its type in upper case.

        Raises:
            ValueError: If the type is unknown, or a field has the wrong type. The text names the field.

        Example:
            >>> UpdateOperation.from_dict({"type": "tag", "skill_id": "a-00001", "tag": "helpful"}).metadata
            {'helpful': 1}
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"an operation must be an object with a 'type', got {shown(data)}")
        return cls(
            type=_operation_type(data),
            section=_text(data, "section") or "",
            content=_text(data, "content"),
            skill_id=_text(data, "skill_id", "id", "bullet_id"),
            metadata=_metadata(data),
            justification=_text(data, "justification", "reason"),
            evidence=_text(data, "evidence"),
            insight_source=_insight_source(data.get("insight_source")),
            cases=_cases(data.get("cases")),
            pending=_text(data, "pending") or "",
        )

    @property
    def counters(self) -> dict[str, object]:
        """The counters in the metadata."""
        return {name: value for name, value in self._known_metadata.items() if name != EVIDENCE_TRACES}

    @property
    def evidence_traces(self) -> tuple[str, ...]:
        """The ids of all traces that taught the skill; empty if they are not listed.

        Raises:
            ValueError: They are something else than a list of strings.
        """
        metadata = self._known_metadata
        if EVIDENCE_TRACES not in metadata:
            return ()
        listed = metadata[EVIDENCE_TRACES]
        if not isinstance(listed, list | tuple) or not all(isinstance(item, str) for item in listed):
            raise ValueError(f"metadata.{EVIDENCE_TRACES} must be a list of strings, got {shown(listed)}")
        return tuple(dict.fromkeys(listed))

    @property
    def _known_metadata(self) -> Mapping[str, object]:
        metadata: object = self.metadata  # the constructor takes anything; the skillbook refuses what is not a mapping
        if isinstance(metadata, dict):  # nearly always, and a quick check
            return metadata
        return metadata if isinstance(metadata, Mapping) else {}

    from_json = from_dict
    """The name of `from_dict` in other frameworks."""

    def to_dict(self) -> dict[str, Any]:
        """Return the operation as a dict for `from_dict`, without fields that are not set."""
        fields: dict[str, Any] = {"type": self.type, "section": self.section}
        for name in ("content", "skill_id", "justification", "evidence"):
            if (value := getattr(self, name)) is not None:
                fields[name] = value
        if self.metadata:
            fields["metadata"] = dict(self.metadata)
        if self.insight_source is not None:
            fields["insight_source"] = self.insight_source.to_dict()
        if self.cases:
            fields["cases"] = [case.to_dict() for case in self.cases]
        if self.pending:
            fields["pending"] = self.pending
        return fields


@dataclass(frozen=True, slots=True)
class UpdateBatch:
    """The operations that one reflection led to, with the reasoning behind them.

    Raises:
        TypeError: One of the operations is something else.

    Example:
        >>> UpdateBatch.from_dict({"reasoning": "", "operations": [{"type": "remove", "id": "a-00001"}]})
        ... # doctest: +ELLIPSIS
        UpdateBatch(reasoning='', operations=(UpdateOperation(type='REMOVE', ...
    """

    reasoning: str = ""
    """The reasoning behind the changes."""
    operations: Sequence[UpdateOperation] = ()
    """The changes, in order; kept as a tuple."""

    def __post_init__(self) -> None:
        operations = tuple(self.operations)
        for index, operation in enumerate(operations):
            instance_of(f"operations[{index}]", operation, UpdateOperation, advice="UpdateBatch.from_dict reads dicts")
        object.__setattr__(self, "operations", operations)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | Sequence[Any]) -> UpdateBatch:
        """Parse a batch in the form in which models write it.

        Args:
            data: `{"reasoning": ..., "operations": [...]}`, the same under the key `update`, or the
                list of operations alone.

        Returns:
            The batch.

        Raises:
            ValueError: If an operation cannot be read. The text names its place, such as `operations[2]`.
        """
        if isinstance(data, Mapping) and "operations" not in data and isinstance(data.get("update"), Mapping):
            outer_reasoning = _text(data, "reasoning") or ""
            inner = cls.from_dict(data["update"])
            return cls(inner.reasoning or outer_reasoning, inner.operations)
        if isinstance(data, Mapping):
            reasoning, operations = _text(data, "reasoning") or "", data.get("operations")
        else:
            reasoning, operations = "", data
        if operations is None:
            raise ValueError("a batch needs a list 'operations', which may be empty")
        if not isinstance(operations, Sequence) or isinstance(operations, str | bytes):
            raise ValueError(f"'operations' must be a list, got {shown(operations)}")
        return cls(reasoning, tuple(_operation_at(place, item) for place, item in enumerate(operations)))

    from_json = from_dict
    """The name of `from_dict` in other frameworks."""

    def to_dict(self) -> dict[str, Any]:
        """Return the batch as a dict for `from_dict`."""
        return {
            "reasoning": self.reasoning,
            "operations": [operation.to_dict() for operation in self.operations],
        }


def _operation_at(place: int, item: Any) -> UpdateOperation:
    if isinstance(item, UpdateOperation):
        return item
    try:
        return UpdateOperation.from_dict(item)
    except ValueError as error:
        raise ValueError(f"operations[{place}]: {error}") from error


def _operation_type(data: Mapping[str, Any]) -> str:
    found = next((data[key] for key in ("type", "operation", "op", "action") if key in data), None)
    name = found.strip().upper() if isinstance(found, str) else found
    if name not in OPERATION_TYPES:
        raise ValueError(f"unknown operation type {shown(found)}; use {', '.join(OPERATION_TYPES)}")
    return str(name)


def _text(data: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of the named fields that is set. A list of texts becomes lines."""
    for name in names:
        value = data.get(name)
        if value is None:
            continue
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return "\n".join(value)
        if not isinstance(value, str):
            raise ValueError(f"{name!r} must be a string, got {shown(value)}")
        return value
    return None


def _metadata(data: Mapping[str, Any]) -> dict[str, object]:
    """Return the metadata of an operation, without what else a model put into it.

    A counter that is not a number stays as it is: then only this operation is skipped and reported, not the batch.
    """
    metadata = data.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"'metadata' must be an object of counters, got {shown(metadata)}")
    counters: dict[str, object] = {name: _counter(metadata[name]) for name in TAGS if metadata.get(name) is not None}
    tag = _text(data, "tag")
    if tag is not None:
        name, increment = tag.strip().lower(), _counter(data.get("increment", 1))
        before = counters.get(name, 0)
        counters[name] = before + increment if isinstance(before, int) and isinstance(increment, int) else increment
    traces = metadata.get(EVIDENCE_TRACES)
    are_names = isinstance(traces, list) and all(isinstance(trace, str) for trace in traces)
    return {**counters, EVIDENCE_TRACES: traces} if are_names else counters


def _counter(value: object) -> object:
    """Return the whole number that a model meant by 1, 1.0, true, "1" or "+1"; anything else as it is."""
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def _count(value: Any, place: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, int):
        raise ValueError(f"{place!r} must be a whole number, got {shown(value)}")
    return value


def _insight_source(value: Any) -> InsightSource | None:
    if value is None or isinstance(value, InsightSource):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"'insight_source' must be an object, got {shown(value)}")
    return InsightSource(
        trace_id=_text(value, "trace_id") or "",
        sample_question=_text(value, "sample_question") or "",
        epoch=_count(value.get("epoch", 0), "insight_source.epoch"),
        step=_count(value.get("step", 0), "insight_source.step"),
        integration=_text(value, "integration") or "",
        error_identification=_text(value, "error_identification") or "",
        learning_text=_text(value, "learning_text") or "",
        evidence=_evidence(value.get("evidence", "none")),
    )


def _evidence(value: Any) -> Evidence:
    for kind in EVIDENCES:
        if value == kind:
            found: Evidence = kind
            return found
    raise ValueError(f"'insight_source.evidence' must be one of {', '.join(EVIDENCES)}, got {shown(value)}")


def _cases(value: Any) -> tuple[SkillCase, ...]:
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ValueError(f"'cases' must be a list, got {shown(value)}")
    return tuple(_case(place, item) for place, item in enumerate(value))


def _case(place: int, item: Any) -> SkillCase:
    if isinstance(item, SkillCase):
        return item
    if not isinstance(item, Mapping):
        raise ValueError(f"'cases[{place}]' must be an object, got {shown(item)}")
    try:
        return SkillCase.from_dict(item)
    except ValueError as error:
        raise ValueError(f"'cases[{place}]' cannot be read: {error}") from error
