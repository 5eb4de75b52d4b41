"""The inputs of a run: what a runner accepts, how traces are named, and which sample of a run an input becomes."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ace.arguments import checked_class, whole_number
from ace.protocols.errors import attribute_of

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import Pipeline
    from ace.skillbook.store import SampleKey

__all__ = [
    "DrawnSample",
    "RecordedTrace",
    "SampleInFlight",
    "TraceGroup",
    "UnreadRecord",
    "check_context",
    "check_items",
    "inputs_digest",
    "orders_of_epochs",
    "trace_identity",
]


@checked_class
@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """A recorded trace with its place, as an input of `TraceAnalyser.run`.

    Its identity is a hash of the raw record together with the place, so a trace is recognised even if the traces around
    it change.

    Example:
        >>> from ace.runners.samples import trace_identity
        >>> trace_identity(RecordedTrace({"answer": "4"}, "logs/a.jsonl#12"), 1)
        '5575ae1c4f02063d@logs/a.jsonl#12'
    """

    record: object
    """The trace as it was recorded, of any type."""
    place: str
    """Where it was found, such as `logs/a.jsonl#12`."""
    group: str = ""
    """The group that it belongs to, such as the task of an attempt. `shuffle` keeps the traces of a group together, in
    their order. Empty if the trace is shuffled on its own."""


@checked_class
@dataclass(frozen=True, slots=True)
class TraceGroup:
    """Several recorded traces that are reflected on together, as one input of `TraceAnalyser.run`.

    It needs a reflector that takes several traces at once, such as `ace.rr.RRStep`.

    Raises:
        ValueError: There are no traces, or two of them have the same place.

    Example:
        >>> traces = RecordedTrace({"answer": "4"}, "a.jsonl#1"), RecordedTrace({"answer": "5"}, "a.jsonl#2")
        >>> TraceGroup(traces).place
        'a.jsonl#1 and 1 more'
    """

    traces: tuple[RecordedTrace, ...]
    """The traces."""

    def __post_init__(self) -> None:
        places = {trace.place for trace in self.traces}
        if not places or len(places) != len(self.traces):
            raise ValueError(f"a group needs traces with different places, got {len(self.traces)} with {len(places)}")

    @property
    def place(self) -> str:
        """The place of the first trace, and how many others there are."""
        more = f" and {len(self.traces) - 1} more" if len(self.traces) > 1 else ""
        return f"{self.traces[0].place}{more}"

    @property
    def batch(self) -> dict[str, object]:
        """The records by place, as a reflector takes them."""
        return {"items": {trace.place: trace.record for trace in self.traces}}


class UnreadRecord(ABC):
    """A record that stays in its file until it is needed.

    The only implementation is in the command line, which knows the files and is above the runners.
    """

    __slots__ = ()

    @abstractmethod
    def load(self) -> object:
        """Return the record.

        Raises:
            OSError: The file can no longer be read.
            ValueError: The file contains something else now.
        """


def trace_identity(item: object, index: int) -> str:
    """Return the name of a sample or a trace. The same input has the same name in every epoch and every run.

    A `RecordedTrace` is named by the hash of its record and its place, and a `TraceGroup` by those of its traces.
    Anything else is named by its own id or, without an id, by its hash and index.

    Args:
        item: The input.
        index: Its position in the input, from 1.

    Example:
        >>> trace_identity({"trace_id": "runs.jsonl#12", "answer": "4"}, 1)
        'runs.jsonl#12'
        >>> trace_identity({"answer": "4"}, 1) == trace_identity({"answer": "4"}, 1)
        True
    """
    if isinstance(item, RecordedTrace):
        return f"{_hash(item.record)}@{item.place}"
    if isinstance(item, TraceGroup):
        return f"{_hash([trace_identity(trace, index) for trace in item.traces])}@{item.place}"
    own = _own_id(item)
    if own:
        return own
    return f"{_hash(item)}#{index}"


def inputs_digest(items: Iterable[object]) -> str:
    """Return a digest that identifies the inputs of a run.

    Args:
        items: The inputs. An iterator is not read, because that is possible only once.

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
    from ace.roles.trace_reading.plain import to_plain

    text = json.dumps(to_plain(item), sort_keys=True, ensure_ascii=True, default=str)
    return text.encode("utf-8")


@dataclass(frozen=True, slots=True)
class DrawnSample:
    """A sample that has been drawn from the input."""

    sample: object
    """The sample or trace that the caller gave."""
    trace_id: str
    """Its name."""
    epoch: int
    """The epoch, from 1."""
    index: int
    """Its position in the epoch, from 1."""


@dataclass(frozen=True, slots=True)
class SampleInFlight:
    """A sample with what its run knows about it."""

    drawn: DrawnSample
    key: SampleKey
    """Its key in a store."""
    global_index: int
    """Its position in the run, from 1."""
    attempt: int
    """How often it has failed before."""
    attempts: Mapping[str, int]
    """How often it has failed because of the answers to a role, by role."""
    already_learned: bool
    """Whether only the steps after `ApplyStep` are left."""
    started: float
    """When it was drawn, by the monotonic clock."""
    content: Mapping[str, object] = field(default_factory=dict)
    """What is noted about its content, so that a later run recognises it; see `ace.runners.once`."""

    @property
    def place(self) -> int:
        """Its position in the input, from 0."""
        return self.drawn.index - 1


_NEVER_NONE = ("sample", "trace", "skillbook")


def check_items(items: object, epochs: int) -> None:
    """Check the inputs of a run as a whole.

    Args:
        items: The inputs.
        epochs: The number of passes over them.

    Raises:
        TypeError: `items` is a single input, not an iterable of inputs.
        ValueError: The inputs can be iterated only once and there are several epochs, or one of them is None.
    """
    if isinstance(items, str | bytes | bytearray | Mapping) or not isinstance(items, Iterable):
        raise TypeError(f"a run takes a list of inputs, not one {type(items).__name__}; put it into a list: run([...])")
    whole_number("epochs", epochs)
    if not isinstance(items, Sequence):
        if epochs > 1:
            raise ValueError(
                f"{epochs} epochs need inputs that can be iterated more than once; a {type(items).__name__} "
                "cannot: pass a list"
            )
        return
    missing = [index for index, item in enumerate(items, 1) if item is None]
    if missing:
        raise ValueError(f"inputs {', '.join(map(str, missing[:10]))} of {len(items)} are None")


_FEW = 10
"""Of so few inputs, two random orders are often equal. (Of eleven, one pair in 40 million is.)"""


def orders_of_epochs(items: Iterable[Any], seed: int | None) -> Iterator[Iterable[Any]]:
    """Return an iterator that yields the inputs in the order of each epoch, without end.

    No order is used twice until each has been used; two epochs in a row only have the same one if there is one input.
    Traces with the same `RecordedTrace.group` are moved together.

    Args:
        items: The inputs.
        seed: Determines the orders; None keeps the order of the inputs.

    Raises:
        ValueError: The inputs are not a sequence, so they cannot be reordered.

    Example:
        >>> orders = orders_of_epochs(["a", "b", "c"], 1)
        >>> next(orders), next(orders)
        (['c', 'a', 'b'], ['c', 'b', 'a'])
    """
    if seed is None:
        return itertools.repeat(items)
    if not isinstance(items, Sequence):
        raise ValueError(f"shuffle needs inputs that can be reordered; a {type(items).__name__} cannot: pass a list")
    return _shuffled(items, seed)


def _shuffled(items: Sequence[Any], seed: int) -> Iterator[list[Any]]:
    groups = _groups(items)
    places = list(range(len(groups)))
    used: set[tuple[int, ...]] = set()
    for epoch in itertools.count(1):
        order = places.copy()
        # A string as seed gives the same order on every machine and every supported release of Python.
        generator = random.Random(f"{seed}/{epoch}")
        generator.shuffle(order)
        if 1 < len(places) <= _FEW:
            while tuple(order) in used:
                generator.shuffle(order)
            used.add(tuple(order))
            if len(used) == math.factorial(len(places)):
                used = {tuple(order)}
        yield [item for place in order for item in groups[place]]


def _groups(items: Sequence[Any]) -> list[list[Any]]:
    """Return the inputs in the groups that are moved together, in their order."""
    groups: list[list[Any]] = []
    by_name: dict[str, list[Any]] = {}
    for item in items:
        name = item.group if isinstance(item, RecordedTrace) else ""
        if name and name in by_name:
            by_name[name].append(item)
            continue
        groups.append([item])
        if name:
            by_name[name] = groups[-1]
    return groups


def check_context(ctx: ACEStepContext, pipeline: Pipeline[ACEStepContext], runner: str, index: int) -> None:
    """Check that the context of one input has the fields that the steps require from the start.

    Args:
        ctx: The context.
        pipeline: The pipeline that it will pass.
        runner: The name of the runner, for the error.
        index: The position of the input, from 1.

    Raises:
        ValueError: A field is missing, or is None although that is not allowed.
    """
    for name in sorted(pipeline.requires):
        if not hasattr(ctx, name):
            raise ValueError(
                f"input {index}: the steps of {runner} need the context field {name!r}, and "
                f"{type(ctx).__name__} lacks it; set it in _build_context, or put the step that provides it first"
            )
        if name in _NEVER_NONE and getattr(ctx, name) is None:
            raise ValueError(
                f"input {index}: the steps of {runner} need the context field {name!r}, which is None; "
                "set it in _build_context"
            )
