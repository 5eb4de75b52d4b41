"""What a store has learned, by content, so that `once=True` learns nothing twice.

The progress note of each sample contains the digest of its content, and is written in the transaction in which the
sample is learned. This needs no table of its own, so it works with every store, including those of plugins.

A conversation, a list of steps or a text that grows is recognised by its beginning: the note also contains the length
and the digest of the record. If a longer record begins with a learned one, only the rest of it is new.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, final

from ace.runners.run_record import recorded_runs
from ace.runners.samples import Beginning, RecordedTrace, TraceGroup, content_of, growing_record

if TYPE_CHECKING:
    from ace.skillbook import Skillbook
    from ace.skillbook.store import SkillbookStore

__all__ = ["LearnedContents", "new_inputs"]

logger = logging.getLogger(__name__)


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
            growing = growing_record(item)
        except (OSError, ValueError) as error:  # as above
            logger.debug("The content of an input cannot be compared: %s", error)
            return None
        if growing is None:
            return None
        known = self._beginnings[growing.kind]
        lengths = [
            beginning.length
            for beginning in growing.beginnings(known)
            if beginning.digest in known.get(beginning.length, ())
        ]
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
