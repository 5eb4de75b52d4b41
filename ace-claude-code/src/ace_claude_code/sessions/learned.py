"""The record of the learned turns and their skills, which is shown to the user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ace.calls import redactor_for
from ace.context import ACEStepContext
from ace.integrations import append_line, list_in, mapping_in, number_in, text_in
from ace.skill import Provenance
from ace.skillbook import Skillbook

__all__ = ["LearnedTurn", "NoteLearnedStep", "read_learned"]

_SHOWN_QUESTION = 80


@dataclass(frozen=True)
class LearnedTurn:
    """A turn that was learned from."""

    trace_id: str
    session_id: str
    turn: int
    """Its number in the session, from 1."""
    question: str
    """The beginning of the user's prompt; empty if no text of a session is kept."""
    skill_ids: tuple[str, ...]
    """The ids of the skills that were learned from it."""
    at: str
    """The time, in ISO 8601."""


class NoteLearnedStep:
    """Records each turn after its changes have been applied. It is the last step.

    Args:
        path: The file of the project.
        skillbook: The skillbook to which the changes are applied.
        provenance: With `ids`, the question is not recorded.
    """

    requires = frozenset({"trace"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, path: Path, skillbook: Skillbook, *, provenance: Provenance = "full") -> None:
        self.path = path
        self.skillbook = skillbook
        self.provenance = provenance

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Record the turn; the context does not change."""
        if isinstance(ctx.trace, Mapping):
            trace_id = text_in(ctx.trace, "trace_id")
            metadata = mapping_in(ctx.trace, "metadata")
            turn = LearnedTurn(
                trace_id=trace_id,
                session_id=text_in(metadata, "session_id"),
                turn=int(number_in(metadata, "turn") or 0),
                question="" if self.provenance == "ids" else _beginning(text_in(ctx.trace, "question")),
                skill_ids=tuple(skill.id for skill in self.skillbook.source_filter(trace_id=trace_id)),
                at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            append_line(self.path, json.dumps(asdict(turn), ensure_ascii=True))
        return ctx


def _beginning(question: str) -> str:
    # Redacted before it is cut, because part of a key would not be recognised.
    return " ".join(redactor_for().redact(question).split())[:_SHOWN_QUESTION]


def read_learned(path: Path) -> list[LearnedTurn]:
    """Return the turns recorded in a file, oldest first and without duplicates; none if the file does not exist.

    Args:
        path: The file of the project.
    """
    # After a crash between the record and the commit, the turn was recorded twice.
    return list({turn.trace_id: turn for turn in _turns(path)}.values()) if path.exists() else []


def _turns(path: Path) -> Iterator[LearnedTurn]:
    for line in path.read_bytes().split(b"\n"):
        try:
            data = json.loads(line)
        except ValueError:  # truncated by a crash; the turn is recorded again
            continue
        if isinstance(data, dict) and text_in(data, "trace_id"):
            yield LearnedTurn(
                trace_id=text_in(data, "trace_id"),
                session_id=text_in(data, "session_id"),
                turn=int(number_in(data, "turn") or 0),
                question=text_in(data, "question"),
                skill_ids=tuple(str(skill_id) for skill_id in list_in(data, "skill_ids")),
                at=text_in(data, "at"),
            )
