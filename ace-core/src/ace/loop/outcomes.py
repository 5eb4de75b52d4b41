"""The outcome of the operations of a sample, read from the store, so that it is known after a kill too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ace._internal.json_fields import mapping_in, text_in
from ace.loop.metadata import APPLIED
from ace.skillbook.events import Added, Removed, Updated

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.skillbook import Skillbook, UpdateReport
    from ace.skillbook.events import Event

__all__ = ["AppliedChange", "OmittedChange", "SampleOutcome", "outcome_of_commit", "outcome_of_sample"]


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change that a sample made to a skill. Judgements of skills are not included."""

    kind: Literal["ADD", "UPDATE", "REMOVE"]
    skill_id: str
    section: str = ""
    content: str = ""
    """The text of the skill after the change; empty if it was removed."""


@dataclass(frozen=True, slots=True)
class OmittedChange:
    """An operation that was not applied."""

    kind: str
    skill_id: str
    reason: str
    content: str = ""
    """The text; empty if the history does not contain it."""


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """The outcome of the operations of a sample."""

    version: int | None
    """The version that the sample was committed as; None without a store."""
    at: str
    """The time of the commit: ISO 8601, UTC; empty without a store."""
    applied: Sequence[AppliedChange] = ()
    omitted: Sequence[OmittedChange] = ()


def outcome_of_sample(skillbook: Skillbook, ctx: ACEStepContext) -> SampleOutcome | None:
    """Return the outcome of a sample that `ApplyStep` has just processed, or None.

    Args:
        skillbook: The book that learns.
        ctx: The context of the sample.
    """
    report: UpdateReport | None = ctx.metadata.get(APPLIED)
    if report is None:
        return None
    applied = []
    for done in report.applied:
        kind = done.operation.type
        if kind in ("ADD", "UPDATE", "REMOVE"):
            applied.append(_change(skillbook, "ADD" if kind == "ADD" else _known_kind(kind), done.skill_id))
    return SampleOutcome(report.version, report.at, tuple(applied), _omitted_in(report, ctx))


def outcome_of_commit(skillbook: Skillbook, version: int) -> SampleOutcome | None:
    """Return the outcome of a sample that was committed as a version.

    Args:
        skillbook: A book in a store.

    Returns:
        None if the history does not contain the version.
    """
    entry = next((change for change in skillbook.history(version - 1) if change.version == version), None)
    if entry is None:
        return None
    omitted = tuple(map(_omitted_note, entry.skipped))
    return SampleOutcome(version, entry.at, tuple(_changes(skillbook, entry.events)), omitted)


def _changes(skillbook: Skillbook, events: Sequence[Event]) -> Iterator[AppliedChange]:
    for event in events:
        match event:
            case Added():
                yield AppliedChange("ADD", event.skill.id, event.skill.section, event.skill.content)
            case Updated():
                yield _change(skillbook, "UPDATE", event.skill_id)
            case Removed():
                yield AppliedChange("REMOVE", event.skill_id)


def _known_kind(kind: str) -> Literal["UPDATE", "REMOVE"]:
    return "REMOVE" if kind == "REMOVE" else "UPDATE"


def _change(skillbook: Skillbook, kind: Literal["ADD", "UPDATE", "REMOVE"], skill_id: str) -> AppliedChange:
    skill = skillbook.get_skill(skill_id)
    if skill is None or kind == "REMOVE":
        return AppliedChange(kind, skill_id)
    return AppliedChange(kind, skill_id, skill.section, skill.content)


def _omitted_in(report: UpdateReport, ctx: ACEStepContext) -> tuple[OmittedChange, ...]:
    operations = [] if ctx.skill_manager_output is None else list(ctx.skill_manager_output.operations)
    return tuple(
        OmittedChange(
            str(left.operation.type),
            left.operation.skill_id or "",
            left.reason,
            operations[left.index].content or "" if left.index < len(operations) else "",
        )
        for left in report.skipped
    )


def _omitted_note(note: Mapping[str, object]) -> OmittedChange:
    operation = mapping_in(note, "operation")
    return OmittedChange(text_in(operation, "type"), text_in(operation, "skill_id"), text_in(note, "reason"))
