"""What was learned from which turn of which session."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ace_claude_code.json_fields import list_in, number_in, text_in

__all__ = ["LearnedTurn", "append_learned", "read_learned"]


@dataclass(frozen=True)
class LearnedTurn:
    """A turn that was learned from."""

    trace_id: str
    session_id: str
    turn: int
    """Its number in the session, from 1."""
    question: str
    """How the user's prompt begins."""
    skill_ids: tuple[str, ...]
    """The skills that it taught."""
    at: str
    """When, as ISO time."""


def append_learned(path: Path, turn: LearnedTurn) -> None:
    """Note a turn, on the disk when this returns.

    Args:
        path: The file of the project.
        turn: The turn.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(json.dumps(asdict(turn), ensure_ascii=True).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_learned(path: Path) -> list[LearnedTurn]:
    """Return the turns noted in a file, the oldest first; none if there is no file.

    Args:
        path: The file of the project.
    """
    return list(_turns(path)) if path.exists() else []


def _turns(path: Path) -> Iterator[LearnedTurn]:
    for line in path.read_bytes().split(b"\n"):
        try:
            data = json.loads(line)
        except ValueError:  # a line that a crash has cut; the skillbook knows the turn by its sources
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
