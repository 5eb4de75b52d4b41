"""Answers of models that a store keeps, so that a run that is taken up again pays for none of them twice."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, final

from ace.protocols.llm import LLMResponse, Usage
from ace.protocols.redaction import redact

__all__ = ["AnswerStore", "RecordedAnswers", "recorded_response", "response_to_record"]


class AnswerStore(Protocol):
    """The part of a store with history that keeps answers."""

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Keep an answer durably; the first one under a key stays and is returned."""


@final
class RecordedAnswers:
    """The recorded answers to what one role asks about one sample.

    A role may ask the same twice, after an answer that it could not use; so each request of the same text has
    an answer of its own.

    Args:
        store: Where they are kept.
        key: Run, epoch, sample, attempt and role.

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

    def __init__(self, store: AnswerStore, key: Sequence[object]) -> None:
        self._store = store
        self._key = list(key)
        self._asked: Counter[str] = Counter()
        self.used = 0
        """How many answers went through here, new or known."""

    def next(self, request: str) -> str | None:
        """Return the recorded answer to a request, or None if it has to be asked.

        Args:
            request: All that the model would see, and the settings that matter.
        """
        answer = self._store.recorded_answer(self._key_of(request))
        if answer is not None:
            self._count(request)
        return answer

    def keep(self, request: str, answer: str) -> str:
        """Record an answer, durably, and return the one that counts. Call it before the answer is used.

        Args:
            request: As for `next`.
            answer: What the model answered.
        """
        kept = self._store.record_answer(self._key_of(request), answer, datetime.now(UTC).isoformat())
        self._count(request)
        return kept

    def _count(self, request: str) -> None:
        self._asked[_hash(request)] += 1
        self.used += 1

    def _key_of(self, request: str) -> str:
        digest = _hash(request)
        return json.dumps([*self._key, digest, self._asked[digest] + 1], ensure_ascii=False)


def response_to_record(response: LLMResponse, secrets: Sequence[str] | None = None) -> str:
    """Return a response as a text for the record, without keys.

    Args:
        response: What the model answered.
        secrets: Keys that must not show; by default those of the environment.
    """
    usage = response.usage
    return json.dumps(
        {
            "text": redact(response.text, secrets),
            "finish_reason": response.finish_reason,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": None if usage.unpriced_calls else usage.cost,
        }
    )


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
