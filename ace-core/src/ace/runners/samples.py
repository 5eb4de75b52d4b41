"""The inputs of a run: what a runner accepts, how traces are named, what they contain, and which sample they become.

`trace_identity` names an input by its record and its place. `content_of` describes what it contains, wherever it was
found, so that `once=True` recognises it; for a record that can grow also its length, so that it is recognised as the
beginning of a longer one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ace._internal.arguments import checked_class, whole_number
from ace.logs.spool import StoredTrace
from ace.protocols.errors import attribute_of

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.logs.plain import Plain
    from ace.pipeline import Pipeline
    from ace.skillbook.store import SampleKey

__all__ = [
    "Beginning",
    "Content",
    "DrawnSample",
    "GrowingItems",
    "GrowingText",
    "RecordedTrace",
    "SampleInFlight",
    "TraceGroup",
    "check_context",
    "check_items",
    "claimed_contents",
    "content_of",
    "growing_record",
    "inputs_digest",
    "orders_of_epochs",
    "trace_identity",
]

logger = logging.getLogger(__name__)


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
    from ace.logs.plain import to_plain

    text = json.dumps(to_plain(item), sort_keys=True, ensure_ascii=True, default=str)
    return text.encode("utf-8")


_ID_FIELDS = ("trace_id", "session_id", "conversation_id", "thread_id")
"""Fields that distinguish records whose first messages are the same."""


class Beginning(NamedTuple):
    """The first part of a record that can grow."""

    kind: Literal["items", "text"]
    length: int
    """How many items, or characters."""
    digest: str


@dataclass(frozen=True, slots=True)
class Content:
    """What a record contains, independent of where it was found."""

    digest: str
    """The digest of everything; feedback and answers are part of the content."""
    whole: Beginning | None = None
    """The record as the beginning of a longer one; None if it cannot grow."""
    members: tuple[str, ...] = ()
    """The digests of the traces in a group; empty for one that cannot be read."""

    @property
    def note(self) -> dict[str, object]:
        """The note of a store on a learned sample."""
        if self.members:
            return {"members": list(self.members)}
        return {"content": self.digest} if self.whole is None else {"content": self.digest, "whole": list(self.whole)}


def claimed_contents(note: Mapping[str, Any]) -> list[str]:
    """Return the digests of the contents that a run claims before it pays for an input.

    Args:
        note: The note on the content, see `Content.note`; empty if the input cannot be read.
    """
    return [*filter(None, note.get("members", ())), *([note["content"]] if "content" in note else [])]


def content_of(item: object, *, can_grow: bool = False) -> Content:
    """Return the content of an input of a run.

    Args:
        item: An input of the runner.
        can_grow: Whether the input is a recorded trace, which may be longer the next time.

    Raises:
        OSError: The file of the record cannot be read.
        ValueError: The file contains another record now.

    Example:
        >>> first, second = RecordedTrace({"answer": "4"}, "a.jsonl#1"), RecordedTrace({"answer": "4"}, "b.jsonl#7")
        >>> content_of(first) == content_of(second)
        True
    """
    if isinstance(item, TraceGroup):
        members = tuple(map(_digest_of_member, item.traces))
        return Content(_digest(list(members)), members=members)
    record = _record_of(item)
    digest = _digest_of(record)
    growing = _growing(record) if can_grow else None
    if growing is None:
        return Content(digest)
    *_, whole = growing.beginnings()
    return Content(digest, whole)


class GrowingItems:
    """The steps of a trace, and the fields around them."""

    kind: Literal["items"] = "items"

    def __init__(self, items: list[Plain], fields: Mapping[str, Plain]) -> None:
        self._items = items
        self._fields = fields
        self.length = len(items)

    def beginnings(self, lengths: object = None) -> Iterator[Beginning]:
        """Yield all beginnings, the shortest first; each item is hashed once."""
        digest = _digest([self._fields.get(name) for name in ("question", *_ID_FIELDS)])
        for length, item in enumerate(self._items, 1):
            digest = _digest([digest, _without_place(item)])
            yield Beginning("items", length, digest)

    def after(self, length: int) -> object:
        """Return the trace without its first steps, with the question and the answer of those that follow."""
        note = f"The first {length} of {self.length} steps were learned from before; what follows is new."
        context = self._fields.get("context")
        new = self._items[length:]
        said = [step for step in new if isinstance(step, dict) and step["kind"] == "message"]
        asked = next((step["content"] for step in said if step["name"] == "user"), self._fields.get("question"))
        answer = next((step["content"] for step in reversed(said) if step["name"] == "assistant"), "")
        about = {"context": f"{context}\n\n{note}" if context else note, "question": asked, "answer": answer}
        return {**self._fields, **about, "steps": new}


class GrowingText:
    """A text that is not JSON, such as a log."""

    kind: Literal["text"] = "text"

    def __init__(self, text: str) -> None:
        self._text = text
        self.length = len(text)

    def beginnings(self, lengths: Iterable[int] = ()) -> Iterator[Beginning]:
        """Yield the beginnings of these lengths that end with a line, and the whole text."""
        digest, done = hashlib.sha256(), 0
        for length in sorted({*(shorter for shorter in lengths if shorter < self.length), self.length}):
            digest.update(self._text[done:length].encode("utf-8", "surrogatepass"))
            done = length
            if length == self.length or "\n" in self._text[length - 1 : length + 1] or "\r" in self._text[length]:
                yield Beginning("text", length, digest.hexdigest()[:32])

    def after(self, length: int) -> object:
        """Return the text without its beginning."""
        return f"[The first {length} characters were learned from before.]\n{self._text[length:].lstrip()}"


def growing_record(item: object) -> GrowingItems | GrowingText | None:
    """Return the record of an input as something that can grow, or None.

    Args:
        item: A recorded trace.

    Raises:
        OSError: The file of the record cannot be read.
        ValueError: The file contains another record now.
    """
    return _growing(_record_of(item))


def _growing(record: object) -> GrowingItems | GrowingText | None:
    from ace.logs.plain import decoded, parsed_json, to_plain
    from ace.logs.trace import read_trace

    if isinstance(record, bytes | bytearray | memoryview):
        record = decoded(bytes(record))
    if isinstance(record, str) and parsed_json(record) is None:
        return GrowingText(record) if record else None
    trace = read_trace(record)
    steps = to_plain(trace["steps"])
    # What was found in the steps would tell again what was learned.
    found = ("schema", "steps", "reasoning", "answer", "corrections", "dialogue", "rest")
    kept = to_plain({name: value for name, value in trace.items() if name not in found})
    if not isinstance(steps, list) or not steps or not isinstance(kept, dict):
        return None
    return GrowingItems(steps, {**kept, **trace["rest"]})


def _record_of(item: object) -> object:
    record = item.record if isinstance(item, RecordedTrace) else item
    return record.load() if isinstance(record, StoredTrace) else record


def _digest_of_member(trace: RecordedTrace) -> str:
    """Return the digest of a trace in a group, which costs only itself if it cannot be read."""
    try:
        return _digest_of(_record_of(trace))
    except (OSError, ValueError) as error:  # the reflection reports it
        logger.debug("The content of %s cannot be read: %s", trace.place, error)
        return ""


def _digest_of(record: object) -> str:
    from ace.environments import Sample
    from ace.logs.plain import to_plain

    if isinstance(record, Path) and record.is_file():
        with record.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
    plain = to_plain(record)
    if isinstance(plain, dict):
        # The name of a record says where it was found, and not what it holds; so do the places of its steps, which
        # are also in the text of all steps and in the corrections.
        plain.pop("id" if isinstance(record, Sample) else "trace_id", None)
        if plain.get("schema") == 1 and isinstance(steps := plain.get("steps"), list):
            plain = {
                name: value for name, value in plain.items() if name not in ("reasoning", "corrections", "dialogue")
            }
            plain["steps"] = [_without_place(step) for step in steps]
    return _digest(plain)


def _without_place(step: Plain) -> Plain:
    return {name: value for name, value in step.items() if name != "place"} if isinstance(step, dict) else step


def _digest(plain: object) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


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
    """What is noted about its content, so that a later run recognises it; see `ace.runners.run_record`."""
    claims: Sequence[str] = ()
    """The contents that the run has claimed for it, see `ContentClaims`."""

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
        TypeError: `items` is a single input, not an iterable of inputs, or `epochs` is an environment.
        ValueError: The inputs can be iterated only once and there are several epochs, or one of them is None.
    """
    if isinstance(items, str | bytes | bytearray | Mapping) or not isinstance(items, Iterable):
        raise TypeError(f"a run takes a list of inputs, not one {type(items).__name__}; put it into a list: run([...])")
    if callable(getattr(epochs, "evaluate", None)):
        raise TypeError(
            "a run takes inputs and a number of epochs; an environment is given when the runner is made, such as "
            "ACE.from_roles(..., environment=SimpleEnvironment())"
        )
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
