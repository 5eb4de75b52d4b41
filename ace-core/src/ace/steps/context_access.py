"""What the steps of the learning core read from the context of a sample, and store in its metadata for later steps.

- `needed`, `is_learned`, `run_of` and `names_in_batch` read it; `model_calls_for` attributes model calls to the sample.
- `RecentReflections` are the latest reflections of a run, which later samples of the run can be told about.

The parsed trace, which is in the metadata too, is in `ace.steps.trace_facts`.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar, final

from ace.calls.model_calls import call_scope, current_call_scope
from ace.pipeline import PipelineCancelled, cancel_token_var
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.calls.model_calls import AnswerStore
    from ace.context import ACEStepContext
    from ace.outputs import ReflectorOutput
    from ace.redaction import Redactor

__all__ = [
    "RecentReflections",
    "is_learned",
    "model_calls_for",
    "names_in_batch",
    "needed",
    "recent_reflections_after",
    "recent_reflections_for",
    "run_of",
    "stop_if_cancelled",
]

T = TypeVar("T")


def needed(value: T | None, field: str, step: object) -> T:
    """Return the value of a field that a step requires.

    Args:
        field: The name of the field.
        step: The step that reads it.

    Raises:
        ValueError: The value is None.

    Example:
        >>> needed("a trace", "trace", object())
        'a trace'
    """
    if value is None:
        raise ValueError(
            f"{type(step).__name__} needs the context field {field!r}, which is None; "
            "it has to be set by an earlier step or the runner"
        )
    return value


def is_learned(ctx: ACEStepContext) -> bool:
    """Return whether an earlier call of the run has already written what the sample teaches.

    Such a sample is processed again only for the steps after `ApplyStep`, in which the run may have been killed.

    Args:
        ctx: The context of the sample; runners put `already_learned` into its metadata.
    """
    return bool(ctx.metadata.get("already_learned"))


def stop_if_cancelled() -> None:
    """Raise `PipelineCancelled` if the run of the sample was cancelled.

    The engine checks this only before foreground steps. A stopped run must not call models for all the samples that
    wait in the background.

    Raises:
        PipelineCancelled: The run was cancelled.
    """
    token = cancel_token_var.get()
    if token is not None and token.is_cancelled:
        raise PipelineCancelled("the run was stopped before this sample was learned")


@contextmanager
def model_calls_for(
    ctx: ACEStepContext,
    role: str,
    *,
    only_same_text: bool = False,
    allow: Collection[str] = (),
    again: bool = False,
    version: int | None = None,
    together: bool = False,
) -> Iterator[None]:
    """Count and record the model calls inside the block for this sample and role.

    Args:
        ctx: The context of the sample; runners put `sample_key`, `trace_id` and `attempts` into its metadata, and
            the first step that reads the trace its `trace_secrets`.
        role: The name of the role.
        only_same_text: Whether a recorded answer is used only for a request with the same text, see `RecordedAnswers`.
        allow: The classes of sensitive text that are not redacted, in addition to those that the run allows.
        again: Whether the role asks a second time about the sample; see `CallScope.asked_by`.
        version: The version of the skillbook to record with the answers.
        together: Whether the role asks about several samples at once, of which this is the first.

    Example:
        >>> from ace.context import ACEStepContext
        >>> from ace.calls.model_calls import current_call_scope
        >>> with model_calls_for(ACEStepContext(metadata={"trace_id": "log.jsonl#3"}), "Reflector"):
        ...     current_call_scope().trace_id
        'log.jsonl#3'
    """
    outer = current_call_scope()
    key = ctx.metadata.get("sample_key")
    run_id, epoch, sample = key if isinstance(key, SampleKey) else (outer.run_id, outer.epoch, outer.sample)
    scope = replace(
        outer,
        run_id=run_id,
        epoch=epoch,
        sample=sample,
        allow=outer.allow.union(allow),
        secrets=ctx.metadata.get("trace_secrets", ()),
        trace_id=str(ctx.metadata.get("trace_id", "")),
        attempts=ctx.metadata.get("attempts", {}),
    )
    scope = scope.asked_by(role, only_same_text=only_same_text, again=again, version=version, together=together)
    with call_scope(scope):
        yield


def run_of(ctx: ACEStepContext) -> str:
    """Return the name of the run that a sample belongs to; empty outside a run.

    Args:
        ctx: The context of the sample.
    """
    key = ctx.metadata.get("sample_key")
    return key.run if isinstance(key, SampleKey) else ""


def names_in_batch(ctx: ACEStepContext, redactor: Redactor) -> dict[str, str]:
    """Return the ids of the traces in a batch, by the names that the reflector knows; empty for a single trace.

    Args:
        ctx: The context of the sample.
        redactor: The redactor of the prompt, which also redacts names.
    """
    from ace.logs.trace import shown_names, traces_in_batch

    batch = traces_in_batch(ctx.trace)
    if batch is None:
        return {}
    ids: Mapping[str, str] = ctx.metadata.get("trace_ids", {})
    return {shown: ids.get(name, name) for shown, name in shown_names(batch, redactor).items()}


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
