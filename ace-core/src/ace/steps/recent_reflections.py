"""`RecentReflections`: the latest reflections of a run, which later samples of the run can be told about."""

from __future__ import annotations

import json
import threading
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, final

from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.calls.model_calls import AnswerStore
    from ace.context import ACEStepContext
    from ace.outputs import ReflectorOutput
    from ace.redaction import Redactor

__all__ = ["RecentReflections", "recent_reflections_after", "recent_reflections_for"]

_LONGEST: Final = 1200
"""In UTF-8 bytes; the middle of a longer reflection is cut out."""


@final
class RecentReflections:
    """The most recent reflections of one run, as texts.

    A run puts it into `metadata["recent_reflections"]` of its contexts, and adds each reflection when its sample has
    been learned. In a store, the text is recorded before what the sample taught is committed, so that a resumed run
    begins with the texts with which it was interrupted. Thread-safe.

    Args:
        size: How many reflections to keep.
        store: Records the texts; None if the run cannot be resumed.
        redactor: Redacts them.
    """

    def __init__(self, size: int, store: AnswerStore | None, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._lock = threading.Lock()
        self._texts: deque[str] = deque(maxlen=size)

    @property
    def texts(self) -> tuple[str, ...]:
        """The reflections, the newest one last."""
        with self._lock:
            return tuple(self._texts)

    def texts_after(self, reflection: ReflectorOutput | None) -> tuple[str, ...]:
        """Return the reflections as they are after one more has been added.

        Args:
            reflection: The reflection; None if there is none.
        """
        texts = self.texts
        text = "" if reflection is None else self._text_of(reflection)
        return (*texts, text)[-(self._texts.maxlen or 1) :] if text else texts

    def record(self, key: SampleKey, attempt: int, reflection: ReflectorOutput) -> None:
        """Record a reflection durably. Call it before the sample is committed.

        Args:
            key: The sample.
            attempt: How often the sample has failed before.
            reflection: The reflection on it.
        """
        if self._store is not None:
            now = datetime.now(UTC).isoformat()
            self._store.record_answer(
                _name_of_record(key, attempt), json.dumps({"text": self._text_of(reflection)}), now
            )

    def add(self, reflection: ReflectorOutput) -> None:
        """Add the reflection on a sample that was learned."""
        self._add(self._text_of(reflection))

    def restore(self, key: SampleKey, attempt: int) -> None:
        """Add the recorded reflection on a sample that an earlier call of the run has learned, if it is still recorded.

        Args:
            key: The sample.
            attempt: How often the sample had failed before.
        """
        recorded = None if self._store is None else self._store.recorded_answer(_name_of_record(key, attempt))
        if recorded is not None:
            self._add(json.loads(recorded)["text"])

    def _add(self, text: str) -> None:
        if text:
            with self._lock:
                self._texts.append(text)

    def _text_of(self, reflection: ReflectorOutput) -> str:
        # Imported here, because it needs pydantic, which building a pipeline must not load.
        from ace.roles.rendering import cut_middle

        parts = (reflection.error_identification, reflection.correct_approach, reflection.key_insight)
        learned = (learning.learning for learning in reflection.extracted_learnings)
        lines = dict.fromkeys(" ".join(text.split()) for text in (*parts, *learned))
        return cut_middle(self._redactor.redact("\n".join(filter(None, lines))), _LONGEST)[0]


def recent_reflections_for(ctx: ACEStepContext) -> dict[str, tuple[str, ...]]:
    """Return the argument with which a role is told about the most recent reflections; empty if it is not to be.

    Args:
        ctx: The context of the sample.
    """
    recent = ctx.metadata.get("recent_reflections")
    return {"recent_reflections": recent.texts} if isinstance(recent, RecentReflections) else {}


def recent_reflections_after(ctx: ACEStepContext) -> tuple[str, ...]:
    """Return the most recent reflections, that on this sample included; empty in a run without a `reflection_window`.

    Args:
        ctx: The context of the sample.
    """
    recent = ctx.metadata.get("recent_reflections")
    return recent.texts_after(ctx.reflection) if isinstance(recent, RecentReflections) else ()


def _name_of_record(key: SampleKey, attempt: int) -> str:
    """Return the name of a record. It begins like those of answers, so that it is deleted together with them."""
    return json.dumps([*key, attempt, "RecentReflections", 1], ensure_ascii=False)
