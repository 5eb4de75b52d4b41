"""What a store has learned, by content, so that `once=True` learns nothing twice.

The progress note of each sample contains the digest of its content, and is written in the transaction in which the
sample is learned. This needs no table of its own, so it works with every store, including those of plugins.

A conversation, a list of steps or a text that grows is recognised by its beginning: the note also contains the length
and the digest of the record. If a longer record begins with a learned one, only the rest of it is new.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

from ace.runners.run_record import recorded_runs
from ace.runners.samples import RecordedTrace, TraceGroup, UnreadRecord

if TYPE_CHECKING:
    from ace.roles.trace_reading.plain import Plain
    from ace.skillbook import Skillbook
    from ace.skillbook.store import SkillbookStore

__all__ = ["Content", "LearnedContents", "content_of", "new_inputs"]

logger = logging.getLogger(__name__)

_NAMES = ("trace_id", "session_id", "conversation_id", "thread_id")
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


def content_of(item: object, *, can_grow: bool = False) -> Content:
    """Return the content of an input of a run.

    Args:
        item: An input of the runner.
        can_grow: Whether the input is a recorded trace, which may be longer the next time.

    Raises:
        OSError: The record is in a file that can no longer be read.
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


def new_inputs(skillbook: Skillbook, inputs: Iterable[object]) -> int:
    """Return how many inputs no earlier run into a skillbook has learned, as a whole or in part.

    Args:
        skillbook: The book; without a store it keeps no record, so all inputs count as new.
        inputs: The inputs of a run.
    """
    store = skillbook.store
    learned = None if store is None else LearnedContents(store, "")
    return sum(learned is None or not learned.knows(item) for item in inputs)


@final
class LearnedContents:
    """The contents that the runs into a store have learned so far.

    Args:
        store: The store.
        run_id: A run whose samples count only as the beginnings of longer records; empty for none.
    """

    def __init__(self, store: SkillbookStore, run_id: str) -> None:
        self._digests: set[str] = set()
        self._beginnings: defaultdict[str, dict[int, set[str]]] = defaultdict(dict)
        for run in recorded_runs(store):
            for row in store.progress(run):
                note = json.loads(row.note)
                if row.version is not None or note.get("ended"):
                    self._add(note, beginning_only=run == run_id)

    def knows(self, item: object) -> bool:
        """Return whether all of an input has been learned. One that cannot be read counts as new.

        Args:
            item: The input.
        """
        if not self._digests:
            return False
        try:
            content = content_of(item)
            return self._digests.issuperset(content.members or [content.digest])
        except (OSError, ValueError) as error:  # it is raised again in the run, which reports the input as failed
            logger.debug("The content of an input cannot be compared: %s", error)
            return False

    def new_part(self, item: object) -> object | None:
        """Return what is new in a recorded trace that has grown; None if no learned record is its beginning.

        Args:
            item: The trace.
        """
        if not self._beginnings or isinstance(item, TraceGroup):
            return None
        try:
            growing = _growing(_record_of(item))
        except (OSError, ValueError) as error:  # as above
            logger.debug("The content of an input cannot be compared: %s", error)
            return None
        if growing is None:
            return None
        known = self._beginnings[growing.kind]
        lengths = [each.length for each in growing.beginnings(known) if each.digest in known.get(each.length, ())]
        if not lengths or max(lengths) >= growing.length:
            return None
        part = growing.after(max(lengths))
        return RecordedTrace(part, item.place) if isinstance(item, RecordedTrace) else part

    def _add(self, note: Mapping[str, Any], *, beginning_only: bool) -> None:
        if "content" in note and not beginning_only:
            self._digests.add(note["content"])
        if not beginning_only:
            self._digests.update(filter(None, note.get("members", ())))
        if "whole" in note:
            whole = Beginning(*note["whole"])
            self._beginnings[whole.kind].setdefault(whole.length, set()).add(whole.digest)


class _GrowingItems:
    """A list of messages or steps, and the fields around it."""

    kind: Literal["items"] = "items"

    def __init__(self, items: list[Plain], name: str = "", fields: Mapping[str, Plain] | None = None) -> None:
        self._items = items
        self._name = name
        self._fields = {} if fields is None else fields
        self.length = len(items)

    def beginnings(self, lengths: object = None) -> Iterator[Beginning]:
        """Yield all beginnings, the shortest first; each item is hashed once."""
        digest = _digest([self._fields.get(name) for name in (*_NAMES, *_questions())])
        for length, item in enumerate(self._items, 1):
            digest = _digest([digest, item])
            yield Beginning("items", length, digest)

    def after(self, length: int) -> object:
        """Return the record without its first items."""
        told = f"The first {length} of {self.length} messages were learned from before; what follows is new."
        context = self._fields.get("context")
        fields = {**self._fields, "context": f"{context}\n\n{told}" if context else told}
        return {**fields, self._name or "messages": self._items[length:]}


class _GrowingText:
    """A text that is not JSON, such as a log."""

    kind: Literal["text"] = "text"

    def __init__(self, text: str) -> None:
        self._text = text
        self.length = len(text)

    def beginnings(self, lengths: Iterable[int] = ()) -> Iterator[Beginning]:
        """Yield the beginnings of these lengths that end with a line, and the whole text."""
        digest, done = hashlib.sha256(), 0
        for length in sorted({*(each for each in lengths if each < self.length), self.length}):
            digest.update(self._text[done:length].encode("utf-8", "surrogatepass"))
            done = length
            if length == self.length or "\n" in self._text[length - 1 : length + 1] or "\r" in self._text[length]:
                yield Beginning("text", length, digest.hexdigest()[:32])

    def after(self, length: int) -> object:
        """Return the text without its beginning."""
        return f"[The first {length} characters were learned from before.]\n{self._text[length:].lstrip()}"


def _growing(record: object) -> _GrowingItems | _GrowingText | None:
    """Return a record as something that can grow, or None."""
    from ace.protocols.trace_converters import find_trace_converter
    from ace.roles.trace_reading.plain import decoded, parsed_json, to_plain
    from ace.roles.trace_reading.reader import ALIASES, read_trace

    if find_trace_converter(record) is not None:
        trace = read_trace(record)
        # The answer, and the text of all steps, would tell again what was learned.
        kept = {name: value for name, value in trace.items() if name not in ("steps", "reasoning", "answer")}
        steps = to_plain(trace["steps"])
        return _GrowingItems(steps, "steps", _fields_of(kept)) if isinstance(steps, list) and steps else None
    if isinstance(record, bytes | bytearray | memoryview):
        record = decoded(bytes(record))
    if isinstance(record, str):
        held = parsed_json(record)
        if held is None:
            return _GrowingText(record) if record else None
        record = held
    plain = to_plain(record)
    if isinstance(plain, list):
        return _GrowingItems(plain) if plain else None
    if isinstance(plain, dict):
        for name in ALIASES["steps"]:
            items = plain.get(name)
            if isinstance(items, list) and items:
                return _GrowingItems(items, name, {key: value for key, value in plain.items() if key != name})
    return None


def _fields_of(trace: Mapping[str, object]) -> dict[str, Plain]:
    from ace.roles.trace_reading.plain import to_plain

    fields = to_plain(trace)
    return fields if isinstance(fields, dict) else {}


def _questions() -> tuple[str, ...]:
    from ace.roles.trace_reading.reader import ALIASES

    return ALIASES["question"]


def _record_of(item: object) -> object:
    record = item.record if isinstance(item, RecordedTrace) else item
    return record.load() if isinstance(record, UnreadRecord) else record


def _digest_of_member(trace: RecordedTrace) -> str:
    """Return the digest of a trace in a group, which costs only itself if it cannot be read."""
    try:
        return _digest_of(_record_of(trace))
    except (OSError, ValueError) as error:  # the reflection reports it
        logger.debug("The content of %s cannot be read: %s", trace.place, error)
        return ""


def _digest_of(record: object) -> str:
    from ace.environments import Sample
    from ace.roles.trace_reading.plain import to_plain

    if isinstance(record, Path) and record.is_file():
        with record.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
    plain = to_plain(record)
    if isinstance(plain, dict):
        # The name of a record says where it was found, and not what it holds.
        plain.pop("id" if isinstance(record, Sample) else "trace_id", None)
    return _digest(plain)


def _digest(plain: object) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]
