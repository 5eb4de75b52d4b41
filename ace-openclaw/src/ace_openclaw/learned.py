"""What was learned from which turn of which session, so that nothing is learned twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ace.context import ACEStepContext
from ace.durable_file import append_line
from ace_openclaw.json_fields import mapping_in, text_in

__all__ = ["LearnedTurn", "LearnedTurns", "NoteLearnedStep"]

_SHOWN_QUESTION = 80


@dataclass(frozen=True)
class LearnedTurn:
    """A turn that was learned from."""

    place: str
    """Session and turn, as in the trace's `metadata["place"]`."""
    trace_id: str
    """With it the skillbook names the skills that the turn taught."""
    session_id: str
    session_key: str
    question: str
    """How it begins."""
    at: str
    """When, as ISO time."""


class LearnedTurns:
    """The turns that were learned from: in a file, or for the life of this object.

    Args:
        path: The file, one JSON object to a line; None keeps nothing.

    Example:
        >>> turns = LearnedTurns(None)
        >>> turns.add({"question": "2+2?", "metadata": {"place": "a#1"}})
        >>> "a#1" in turns, "a#2" in turns
        (True, False)
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._turns = {turn.place: turn for turn in _read(path)} if path is not None else {}

    def __contains__(self, place: object) -> bool:
        """Return whether a turn was learned from."""
        return place in self._turns

    def turns(self) -> list[LearnedTurn]:
        """Return the turns in the order in which they were learned from."""
        return list(self._turns.values())

    def add(self, trace: dict[str, object]) -> None:
        """Note that a trace was learned from.

        Args:
            trace: The trace of a turn.

        Raises:
            OSError: The note cannot be written.
        """
        metadata = mapping_in(trace, "metadata")
        turn = LearnedTurn(
            place=text_in(metadata, "place"),
            trace_id=text_in(trace, "trace_id"),
            session_id=text_in(metadata, "session_id"),
            session_key=text_in(metadata, "session_key"),
            question=" ".join(text_in(trace, "question").split())[:_SHOWN_QUESTION],
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if self.path is not None:
            append_line(self.path, json.dumps(asdict(turn), ensure_ascii=False))
        self._turns[turn.place] = turn


class NoteLearnedStep:
    """Notes each trace when everything that it teaches has been applied. It comes last.

    Args:
        turns: Where to note it.
    """

    requires = frozenset({"trace"})
    provides: frozenset[str] = frozenset()
    lane = "learned"

    def __init__(self, turns: LearnedTurns) -> None:
        self.turns = self.lane_key = turns

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Note the trace; the context stays as it is."""
        if isinstance(ctx.trace, dict):
            self.turns.add(ctx.trace)
        return ctx


def _read(path: Path) -> Iterator[LearnedTurn]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for line in data.split(b"\n"):
        try:
            record = json.loads(line)
        except ValueError:  # a line that a crash cut: its turn is learned from again
            continue
        if isinstance(record, dict):
            yield LearnedTurn(**{name: text_in(record, name) for name in LearnedTurn.__dataclass_fields__})
