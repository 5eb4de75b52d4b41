"""What was learned from which turn of which session, for the user to see."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ace.calls import redactor_for
from ace.context import ACEStepContext
from ace.durable_file import append_line
from ace.json_fields import list_in, mapping_in, number_in, text_in
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
    """How the user's prompt begins; empty where no text of a session is kept."""
    skill_ids: tuple[str, ...]
    """The skills that it taught."""
    at: str
    """When, as ISO time."""


class NoteLearnedStep:
    """Notes each turn when everything that it teaches has been applied. It comes last.

    Args:
        path: The file of the project.
        skillbook: The book that learns.
        provenance: With `ids`, the question is not noted.
    """

    requires = frozenset({"trace"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, path: Path, skillbook: Skillbook, *, provenance: Provenance = "full") -> None:
        self.path = path
        self.skillbook = skillbook
        self.provenance = provenance

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Note the turn; the context stays as it is."""
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
    # Redacted before it is cut: half a key would not be recognised.
    return " ".join(redactor_for().redact(question).split())[:_SHOWN_QUESTION]


def read_learned(path: Path) -> list[LearnedTurn]:
    """Return the turns noted in a file, each once, the oldest first; none if there is no file.

    Args:
        path: The file of the project.
    """
    # A crash may have come between the note and the store; then the turn was noted once more.
    return list({turn.trace_id: turn for turn in _turns(path)}.values()) if path.exists() else []


def _turns(path: Path) -> Iterator[LearnedTurn]:
    for line in path.read_bytes().split(b"\n"):
        try:
            data = json.loads(line)
        except ValueError:  # a line that a crash has cut; the turn is noted again
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
