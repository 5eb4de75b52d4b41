"""Events as JSON objects, for a store to keep. The JSON holds all that replay needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ace.skill import SimilarityDecision, Skill, similarity_pair
from ace.skillbook.checked import decision_pair
from ace.skillbook.events import (
    Added,
    Embedded,
    Event,
    Imported,
    Kept,
    Merged,
    Removed,
    RolledBack,
    Tagged,
    Updated,
)
from ace.skillbook.foreign_json import read_skill, read_source
from ace.skillbook.json_write import skill_dict


def encode_events(events: Sequence[Event]) -> str:
    """Return the events as one compact JSON text."""
    return json.dumps([event_dict(event) for event in events], ensure_ascii=False, separators=(",", ":"))


def decode_events(text: str) -> tuple[Event, ...]:
    """Return the events of a text that `encode_events` wrote."""
    return tuple(_event(fields) for fields in json.loads(text))


def event_dict(event: Event) -> dict[str, Any]:
    """Return the event as a dict; `kind` tells which it is."""
    match event:
        case Added():
            return {"kind": "add", "skill": skill_dict(event.skill), "number": event.number}
        case Updated():
            return {
                "kind": "update",
                "skill_id": event.skill_id,
                "texts": dict(event.texts),
                "counters": dict(event.counters),
                "source": None if event.source is None else event.source.to_dict(),
                "at": event.at,
            }
        case Tagged():
            counters = dict(event.counters)
            return {"kind": "tag", "skill_id": event.skill_id, "counters": counters, "at": event.at}
        case Removed():
            return {"kind": "remove", "skill_id": event.skill_id, "soft": event.soft, "at": event.at}
        case Merged():
            return {
                "kind": "merge",
                "keep_id": event.keep_id,
                "merged_ids": list(event.merged_ids),
                "content": event.content,
                "at": event.at,
            }
        case Kept():
            return {
                "kind": "keep",
                "skill_ids": [event.first_id, event.second_id],
                **event.decision.to_dict(),
            }
        case Imported():
            return {
                "kind": "import",
                "skills": [skill_dict(skill) for skill in event.skills],
                "decisions": [{"skill_ids": [a, b], **decision.to_dict()} for a, b, decision in event.decisions],
                "next_id": event.next_id,
            }
        case Embedded():
            return {"kind": "embed", "skills": [[id, checksum] for id, _, checksum in event.vectors]}
        case RolledBack():
            return {"kind": "rollback", "version": event.version}


def _event(fields: dict[str, Any]) -> Event:
    match fields["kind"]:
        case "add":
            return Added(_skill(fields["skill"]), fields["number"])
        case "update":
            source = fields["source"]
            return Updated(
                fields["skill_id"],
                fields["texts"],
                fields["counters"],
                None if source is None else read_source(source, "source", strict=True),
                fields["at"],
            )
        case "tag":
            return Tagged(fields["skill_id"], fields["counters"], fields["at"])
        case "remove":
            return Removed(fields["skill_id"], fields["soft"], fields["at"])
        case "merge":
            return Merged(fields["keep_id"], tuple(fields["merged_ids"]), fields["content"], fields["at"])
        case "keep":
            (first, second), decision = _pair(fields)
            return Kept(first, second, decision)
        case "import":
            decisions = tuple((*pair, decision) for pair, decision in map(_pair, fields["decisions"]))
            return Imported(tuple(map(_skill, fields["skills"])), decisions, fields["next_id"])
        case "embed":
            return Embedded(tuple((id, None, checksum) for id, checksum in fields["skills"]))
        case "rollback":
            return RolledBack(fields["version"])
        case kind:
            raise ValueError(f"an event of the unknown kind {kind!r}; a newer ace wrote it")


def _pair(fields: dict[str, Any]) -> tuple[tuple[str, str], SimilarityDecision]:
    rest = {name: value for name, value in fields.items() if name != "kind"}
    return decision_pair(",".join(similarity_pair(*fields["skill_ids"])), rest)


def _skill(fields: dict[str, Any]) -> Skill:
    return read_skill(fields["id"], fields, strict=True)
