"""What became of a batch of operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook.stores import HIDDEN
from ace.updates import UpdateOperation


@dataclass(frozen=True, slots=True)
class AppliedOperation:
    """An operation that was carried out."""

    index: int
    """Its place in the batch, from 0."""
    operation: UpdateOperation
    skill_id: str
    """The skill that it made or changed."""


@dataclass(frozen=True, slots=True)
class SkippedOperation:
    """An operation that was left out as a whole."""

    index: int
    operation: UpdateOperation
    reason: str
    """Why, in words for people."""

    def to_note(self) -> dict[str, object]:
        """Return the operation and the reason as JSON values, whatever types the operation came with."""
        fields = {name: getattr(self.operation, name) for name in self.operation.__dataclass_fields__}
        given = {name: _json_value(value) for name, value in fields.items() if value not in (None, {}, ())}
        return {"operation": given, "reason": self.reason}


def without_texts(operation: UpdateOperation) -> UpdateOperation:
    """Return an operation that says what was to be done to which skill, but not with what words."""
    hidden = None if operation.content is None else HIDDEN
    return replace(
        operation, section=HIDDEN, content=hidden, justification=None, evidence=None, insight_source=None, cases=()
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
    """The version that the store gave to the batch; None without a store, or if nothing was committed yet."""

    def with_commit(self, version: int, renamed: Mapping[str, str], refused: Mapping[str, str]) -> UpdateReport:
        """Return the report after a commit that found the store changed.

        Args:
            version: The new version.
            renamed: New ids by the ids that the batch had used.
            refused: Reasons by the ids of skills that could not be changed any more.
        """
        applied, skipped = [], list(self.skipped)
        for done in self.applied:
            if done.skill_id in refused:
                skipped.append(SkippedOperation(done.index, done.operation, refused[done.skill_id]))
            else:
                applied.append(AppliedOperation(done.index, done.operation, renamed.get(done.skill_id, done.skill_id)))
        return UpdateReport(tuple(applied), tuple(sorted(skipped, key=lambda item: item.index)), version)
