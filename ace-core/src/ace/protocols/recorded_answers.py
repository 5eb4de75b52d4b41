"""Answers of models that a store keeps, so that a resumed run pays for none of them twice."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol, final

from ace.protocols.llm import LLMResponse, Usage
from ace.protocols.model_calls import current_call_scope
from ace.protocols.redaction import known_secrets, redact
from ace.redaction import Redactor

__all__ = ["AnswerStore", "RecordedAnswers", "keep_response", "recorded_response", "response_to_record"]


class AnswerStore(Protocol):
    """The part of a store with history that keeps answers."""

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Keep an answer durably; the first one under a key stays and is returned."""


@final
class RecordedAnswers:
    """The recorded answers to what one role asks about one sample, in the order in which they were given.

    A request gets the answer that was recorded for the same text. A role may ask the same text twice, after an answer
    that it could not use; so each such request has an answer of its own.

    When a run is resumed, the prompt of a role may differ from the one that was answered, because the skillbook has
    changed in the meantime. The answer was paid for, so it still counts: a request whose text is not known gets the
    first unused answer of the same kind. This needs requests that come one after the other; answers to requests that
    overlapped are only found by their text. Methods may be called from several threads.

    Args:
        store: Where they are kept.
        key: Run, epoch, sample, attempt and role.
        only_same_text: Whether an answer counts for no other text than its own.

    Example:
        >>> class Memory(dict):
        ...     recorded_answer = dict.get
        ...     def record_answer(self, key, answer, at, details=None):
        ...         return self.setdefault(key, answer)
        >>> memory, key = Memory(), ("run", 1, "trace", 0, "Reflector")
        >>> answers = RecordedAnswers(memory, key)
        >>> answers.next("What now?") is None, answers.keep("What now?", "Wait.")
        (True, 'Wait.')
        >>> RecordedAnswers(memory, key).next("What now?")
        'Wait.'
    """

    def __init__(self, store: AnswerStore, key: Sequence[object], *, only_same_text: bool = False) -> None:
        self._store = store
        self._key = list(key)
        self._only_same_text = only_same_text
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._known: list[_Known] | None = None
        self._kept = 0
        self.used = 0
        """How many answers went through here, new or known."""

    def next(self, request: str, kind: str = "") -> str | None:
        """Return the recorded answer to a request, or None if it has to be asked.

        Args:
            request: All that the model would see, and the settings that matter.
            kind: The part of the request that a change of the skillbook does not change, such as the model and the
                settings. If it is empty, only an answer to the same text counts.
        """
        digest = _hash(request)
        with self._lock:
            found = self._find(digest, _hash(kind) if kind else "")
            if found is None:
                self._waiting[kind] += 1
                return None
            found.is_used = True
            self.used += 1
            return found.answer

    def keep(self, request: str, answer: str, kind: str = "") -> str:
        """Record an answer, durably, and return the one that counts. Call it before the answer is used.

        Args:
            request: As for `next`.
            answer: What the model answered.
            kind: As for `next`.
        """
        digest = _hash(request)
        with self._lock:
            # Two requests of one kind at a time: a resumed run could not tell whose answer this is, but by the text.
            overlapped = self._waiting[kind] > 1
            self._waiting[kind] = max(0, self._waiting[kind] - 1)
            self.used += 1
        entry = {"request": digest, "kind": "" if overlapped or not kind else _hash(kind), "answer": answer}
        text, now = json.dumps(entry, ensure_ascii=False), datetime.now(UTC).isoformat()
        while True:
            kept = _Known.read(self._store.record_answer(self._next_name(), text, now))
            if kept.digest == digest:  # else another process, whose store cannot lock runs, was first at this position
                return kept.answer

    def _next_name(self) -> str:
        with self._lock:
            self._kept += 1
            return self._name(len(self._recorded()) + self._kept)

    def _find(self, digest: str, kind: str) -> _Known | None:
        unused = [each for each in self._recorded() if not each.is_used]
        same_text = next((each for each in unused if each.digest == digest), None)
        if same_text is not None or self._only_same_text or not kind:
            return same_text
        return next((each for each in unused if each.kind == kind), None)

    def _recorded(self) -> list[_Known]:
        """Return what earlier calls of the run have recorded."""
        if self._known is None:
            self._known = []
            while (entry := self._store.recorded_answer(self._name(len(self._known) + 1))) is not None:
                self._known.append(_Known.read(entry))
        return self._known

    def _name(self, position: int) -> str:
        return json.dumps([*self._key, position], ensure_ascii=False)


@dataclass(slots=True)
class _Known:
    """An answer of the record."""

    digest: str
    kind: str
    answer: str
    is_used: bool = False

    @classmethod
    def read(cls, entry: str) -> _Known:
        fields = json.loads(entry)
        return cls(fields["request"], fields["kind"], fields["answer"])


def response_to_record(response: LLMResponse, secrets: Sequence[str] | None = None) -> str:
    """Return a response as a text for the record, without secrets and personal data.

    Args:
        response: What the model answered.
        secrets: Keys that must not show; by default those of the environment.
    """
    usage = response.usage
    redactor = Redactor(known_secrets() if secrets is None else secrets, allow=current_call_scope().allow)
    return json.dumps(
        {
            "text": redactor.redact(response.text),
            "finish_reason": response.finish_reason,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": None if usage.unpriced_calls else usage.cost,
        }
    )


def keep_response(
    answers: RecordedAnswers,
    request: str,
    response: LLMResponse,
    *,
    secrets: Sequence[str] | None = None,
    kind: str = "",
) -> LLMResponse:
    """Record a response, durably, and return the one to use.

    The record lacks secrets and personal data. The run itself uses what the model answered, without known secrets: an
    agent that was asked for a mail address has to be able to give it.

    Args:
        answers: The record.
        request: As for `RecordedAnswers.next`.
        response: What the model answered.
        secrets: Keys that must not show; by default those of the environment.
        kind: As for `RecordedAnswers.next`.
    """
    record = response_to_record(response, secrets)
    kept = answers.keep(request, record, kind)
    if kept != record:  # another process was first
        return replace(recorded_response(kept), usage=response.usage)
    return replace(response, text=redact(response.text, secrets))


def recorded_response(record: str) -> LLMResponse:
    """Return the response that a record holds. Its usage is what it has cost when it was made.

    Args:
        record: A text of `response_to_record`.

    Example:
        >>> recorded_response(response_to_record(LLMResponse("Paris", usage=Usage(calls=1, cost=0.5)))).usage.cost
        0.5
    """
    data = json.loads(record)
    cost = data["cost"]
    usage = Usage(
        calls=1,
        input_tokens=data["input_tokens"],
        output_tokens=data["output_tokens"],
        cost=cost or 0.0,
        unpriced_calls=int(cost is None),
    )
    return LLMResponse(data["text"], usage=usage, finish_reason=data["finish_reason"])


def _hash(request: str) -> str:
    return hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()
