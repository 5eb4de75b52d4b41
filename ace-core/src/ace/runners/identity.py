"""What a trace is called, so that its skills can be traced back to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from ace.protocols.foreign_data import attribute_of
from ace.runners.recorded_trace import RecordedTrace

__all__ = ["inputs_digest", "trace_identity"]


def trace_identity(item: object, index: int) -> str:
    """Return the name of a sample or a trace: its own id, or a hash of the record and its place.

    A `RecordedTrace` is always named by hash and place; anything else without an id by hash and index.

    The same input gives the same name in every epoch and every run.

    Args:
        item: What the runner was given.
        index: Its place in the input, from 1.

    Example:
        >>> trace_identity({"trace_id": "runs.jsonl#12", "answer": "4"}, 1)
        'runs.jsonl#12'
        >>> trace_identity({"answer": "4"}, 1) == trace_identity({"answer": "4"}, 1)
        True
    """
    if isinstance(item, RecordedTrace):
        return f"{_hash(item.record)}@{item.place}"
    own = _own_id(item)
    if own:
        return own
    return f"{_hash(item)}#{index}"


def inputs_digest(items: Iterable[object]) -> str:
    """Return a digest that tells the inputs of a run from others.

    Args:
        items: The inputs; of an iterator, which can be read only once, nothing is looked at.

    Returns:
        The digest; empty for an iterator.

    Example:
        >>> inputs_digest(["a", "b"]) == inputs_digest(["a", "b"]), inputs_digest(["a"]) == inputs_digest(["b"])
        (True, False)
    """
    if not isinstance(items, Sequence):
        return ""
    digest = hashlib.sha256()
    for index, item in enumerate(items, 1):
        digest.update(trace_identity(item, index).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:16]


def _hash(record: object) -> str:
    return hashlib.sha256(_bytes(record)).hexdigest()[:16]


def _own_id(item: object) -> str:
    for name in ("trace_id", "id"):
        found = item.get(name) if isinstance(item, Mapping) else attribute_of(item, name)
        if isinstance(found, str):
            return found
    return ""


def _bytes(item: object) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    from ace.implementations.trace_reading.plain import to_plain

    text = json.dumps(to_plain(item), sort_keys=True, ensure_ascii=True, default=str)
    return text.encode("utf-8")
