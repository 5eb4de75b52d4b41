"""The calls of models: what they are for, how many answers they may cost, and which answers are recorded.

A context variable carries the scope of a call (the run, the sample and the role) from the code that asks to the client
that calls, and another one the budget of answers that a role and its client share.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol, final

from ace.calls.secrets import known_secrets, redact
from ace.protocols.llm import LLMResponse, Usage
from ace.protocols.observers import ModelCalled, emit, is_observed
from ace.redaction import Redactor

__all__ = [
    "AnswerBudget",
    "AnswerStore",
    "CallScope",
    "RecordedAnswers",
    "answer_budget",
    "call_scope",
    "current_answer_budget",
    "current_call_scope",
    "keep_response",
    "note_model_call",
    "recorded_response",
    "redactor_for",
    "response_to_record",
]


@dataclass(frozen=True, slots=True)
class CallScope:
    """What the current model calls are for. Fields that were not set are empty."""

    run_id: str = ""
    """The name of the run."""
    epoch: int = 0
    """From 1."""
    sample: str = ""
    """The name under which a store keeps the sample."""
    trace_id: str = ""
    """The name of the sample or trace."""
    role: str = ""
    """Who asks, such as `Reflector`."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """How often the answers of each role about the sample could not be used in this run before."""
    store: AnswerStore | None = None
    """Where the answers of the run are recorded; None where they are not."""
    answers: RecordedAnswers | None = None
    """The answers that are recorded for this role and sample."""
    allow: frozenset[str] = frozenset()
    """The classes of sensitive text that are neither redacted nor kept out of the skillbook; see `CopyGuard`."""
    on_usage: Callable[[Usage], None] | None = None
    """Called with what each model call has used; a recorded answer uses nothing."""

    def asked_by(self, role: str, *, only_same_text: bool = False) -> CallScope:
        """Return the scope in which a role begins to ask: its recorded answers are gone through from the first.

        Args:
            role: The name of the role.
            only_same_text: Whether a recorded answer counts for no other request than its own, see
                `RecordedAnswers`.
        """
        if self.store is None or not self.sample:
            return replace(self, role=role, answers=None)

        key = (self.run_id, self.epoch, self.sample, self.attempts.get(role, 0), role)
        answers = RecordedAnswers(self.store, key, only_same_text=only_same_text)
        return replace(self, role=role, answers=answers)


_NOTHING = CallScope()
_current: ContextVar[CallScope] = ContextVar("ace_call_scope", default=_NOTHING)


def current_call_scope() -> CallScope:
    """Return what the model calls of this moment are for."""
    return _current.get()


@contextmanager
def call_scope(scope: CallScope) -> Iterator[None]:
    """Say what the model calls inside the block are for.

    Args:
        scope: The run, the sample and the role.

    Example:
        >>> with call_scope(CallScope(run_id="monday").asked_by("Reflector")):
        ...     current_call_scope().run_id, current_call_scope().role
        ('monday', 'Reflector')
    """
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


def note_model_call(model: str, usage: Usage, seconds: float, *, recorded: bool = False) -> None:
    """Tell the observers that a model answered. Clients call this once for each answer.

    Args:
        model: The model string.
        usage: What the answer has cost.
        seconds: How long it took.
        recorded: Whether it came from the record of a run.
    """
    scope = _current.get()
    if scope.on_usage is not None and not recorded:
        scope.on_usage(usage)
    if not is_observed():
        return
    emit(
        ModelCalled(
            run_id=scope.run_id,
            trace_id=scope.trace_id,
            model=model,
            role=scope.role,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=None if usage.unpriced_calls else usage.cost,
            seconds=seconds,
            recorded=recorded,
        )
    )


class AnswerBudget:
    """Counts model answers up to a total, and keeps them for inspection.

    Args:
        total: The number of answers that may be asked for; at least 1.

    Example:
        >>> budget = AnswerBudget(2)
        >>> budget.record("no JSON")
        >>> budget.left, budget.answers
        (1, ['no JSON'])
    """

    def __init__(self, total: int) -> None:
        if total < 1:
            raise ValueError(f"an answer budget needs a total of at least 1, got {total}")
        self.total = total
        self.answers: list[str] = []

    @property
    def left(self) -> int:
        """The number of answers that may still be asked for."""
        return max(0, self.total - len(self.answers))

    def record(self, answer: str) -> None:
        """Count one answer.

        Args:
            answer: The raw text of the answer.
        """
        self.answers.append(answer)


_budget: ContextVar[AnswerBudget | None] = ContextVar("ace_answer_budget", default=None)


@contextmanager
def answer_budget(total: int) -> Iterator[AnswerBudget]:
    """Bound the answers that clients ask for inside the `with` block.

    Args:
        total: The number of answers.

    Yields:
        The budget, to see what is left.

    Example:
        >>> with answer_budget(4):
        ...     current_answer_budget().left
        4
        >>> current_answer_budget() is None
        True
    """
    budget = AnswerBudget(total)
    token = _budget.set(budget)
    try:
        yield budget
    finally:
        _budget.reset(token)


def current_answer_budget() -> AnswerBudget | None:
    """Return the budget that is open around this code, or None."""
    return _budget.get()


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


def redactor_for(*clients: object) -> Redactor:
    """Return what replaces secrets and personal data in all that is sent to the learning model, or stored.

    It knows the secrets of the environment and the keys of these clients, and leaves alone what the run allows
    (`CallScope.allow`).

    Args:
        *clients: Clients, as `client_keys` takes them.
    """
    return _redactor(tuple(known_secrets(*clients)), current_call_scope().allow)


# Redactors do not change, and all samples of a run need the same few.
@functools.lru_cache(maxsize=16)
def _redactor(secrets: tuple[str, ...], allow: frozenset[str]) -> Redactor:
    return Redactor(secrets, allow=allow)
