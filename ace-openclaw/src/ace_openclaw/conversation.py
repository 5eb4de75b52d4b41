"""The conversation in a session: the active branch, divided into turns of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ace.integrations import Record, number_in, text_in
from ace_openclaw.messages import is_echo, message_of, question_in
from ace_openclaw.reading.session import StoredSession

__all__ = ["Conversation", "Line", "Turn", "read_conversation"]


@dataclass(frozen=True)
class Line:
    """An event and its place in the session."""

    place: str
    event: Record


@dataclass(frozen=True)
class Turn:
    """A question of the user and the events up to the next question.

    Events at the start of a session, or after a reset, belong to the question that follows them.
    """

    number: int
    """The number of the turn, from 1."""
    name: str
    """The name of the turn in its session, which does not depend on where the session is read from."""
    question: str
    lines: tuple[Line, ...]
    """The events of the turn, including those at the start of a session or after a reset."""
    starts_afresh: bool
    """Whether the history was reset before this turn."""


@dataclass(frozen=True)
class Conversation:
    """The turns of a session, in order."""

    lines: tuple[Line, ...]
    turns: tuple[Turn, ...]
    abandoned_messages: int
    """The number of messages on abandoned branches."""
    echoes: int
    """The number of messages that only repeat what was sent to a chat."""


def read_conversation(session: StoredSession) -> Conversation:
    """Find the active branch of a session, and divide it into turns.

    A session without a question has no turn.
    """
    everything = [Line(place, event) for place, event in zip(session.places, session.events, strict=True)]
    branch = _branch(everything, session.leaf_id)
    lines = tuple(line for at, line in enumerate(everything) if at in branch)
    left = [line for at, line in enumerate(everything) if at not in branch]
    return Conversation(
        lines=lines,
        turns=tuple(_turns(lines)),
        abandoned_messages=sum(line.event.get("type") == "message" for line in left),
        echoes=sum(is_echo(line.event) for line in lines),
    )


def _branch(lines: Sequence[Line], leaf_id: str) -> set[int]:
    """Return the places of the events that lead to the leaf. Events without ids, such as captured ones, are all on it.

    If no event names its predecessor, as in lists that were written by hand or reduced, all are in order.
    """
    if not any(text_in(line.event, "parentId") or line.event.get("type") == "leaf" for line in lines):
        return set(range(len(lines)))
    places: dict[str, int] = {}
    for at, line in enumerate(lines):
        places.setdefault(text_in(line.event, "id"), at)
    chosen = {at for at, line in enumerate(lines) if not text_in(line.event, "id")}
    following = places[leaf_id] if leaf_id and leaf_id in places else _last_leaf(lines, places)
    while following is not None and following not in chosen:
        chosen.add(following)
        following = _before(lines, following, places)
    return chosen


def _last_leaf(lines: Sequence[Line], places: dict[str, int]) -> int | None:
    last = next((at for at in reversed(range(len(lines))) if text_in(lines[at].event, "id")), None)
    if last is not None and lines[last].event.get("type") == "leaf":
        return places.get(text_in(lines[last].event, "targetId"), last)
    return last


def _before(lines: Sequence[Line], at: int, places: dict[str, int]) -> int | None:
    """Return the place of the previous event or, if that event was lost, of the nearest earlier one."""
    event = lines[at].event
    if event.get("type") == "leaf":  # it moves the conversation to another event
        event = {"parentId": text_in(event, "targetId", "parentId")}
    parent = text_in(event, "parentId")
    if not parent:
        return None
    found = places.get(parent)
    return found if found is not None and found < at else at - 1 if at else None


def _turns(lines: Sequence[Line]) -> list[Turn]:
    starts = [at for at, line in enumerate(lines) if question_in(line.event)]
    ends = [*starts[1:], len(lines)] if starts else []
    resets = [at for at, line in enumerate(lines) if line.event.get("type") == "reset"]
    turns: list[Turn] = []
    before = 0
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        own_resets = [at for at in resets if before <= at < start]
        begin = before if number == 1 else own_resets[-1] if own_resets else start
        end = next((at for at in reversed(resets) if start < at < end), end) if end < len(lines) else end
        # Events before the question do not affect the name, because captured turns begin with the question.
        name = _name(lines[start:end], number)
        turns.append(Turn(number, name, question_in(lines[start].event), tuple(lines[begin:end]), bool(own_resets)))
        before = start
    return turns


def _name(lines: Sequence[Line], number: int) -> str:
    """Return the time of the first answer, which is the same in all sources, or else that of the question."""
    messages = [*(message_of(line.event, "assistant") for line in lines), message_of(lines[0].event, "user")]
    time = next((time for message in messages if (time := number_in(message, "timestamp")) is not None), None)
    return f"turn-{number}" if time is None else f"{time:.0f}"
