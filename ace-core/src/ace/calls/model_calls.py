"""Model calls: their scope, their budget of answers, retries within it, and the answers that are recorded.

One context variable carries the scope of a call (the run, the sample and the role) from the role to the client that
calls the model. Another one carries the budget of answers that a role and its client share.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar, final

from ace.calls.secrets import known_secrets, redact
from ace.protocols.errors import UnusableAnswerError, attribute_of
from ace.protocols.llm import LLMResponse, Usage
from ace.protocols.observers import ModelCalled, emit, is_observed
from ace.redaction import Redactor

__all__ = [
    "AnswerBudget",
    "AnswerProblem",
    "AnswerStore",
    "CallScope",
    "RecordedAnswers",
    "RejectedAnswer",
    "answer_budget",
    "call_scope",
    "current_answer_budget",
    "current_call_scope",
    "keep_response",
    "note_model_call",
    "note_response",
    "recorded_response",
    "redactor_for",
    "response_to_record",
    "until_usable",
]

Answer = TypeVar("Answer")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallScope:
    """The run, sample and role of the current model calls. Fields that were not set are empty."""

    run_id: str = ""
    """The name of the run."""
    epoch: int = 0
    """The epoch, from 1."""
    sample: str = ""
    """The name of the sample in a store."""
    trace_id: str = ""
    """The name of the sample or trace."""
    role: str = ""
    """The role that asks, such as `Reflector`."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """How often, in this run, the sample has failed because of the answers to a role, by role."""
    store: AnswerStore | None = None
    """Where the answers of the run are recorded; None if they are not."""
    answers: RecordedAnswers | None = None
    """The recorded answers for this role and sample."""
    allow: frozenset[str] = frozenset()
    """The classes of sensitive text that are neither redacted nor kept out of the skillbook; see `LeakageGuard`."""
    secrets: tuple[str, ...] = ()
    """The secrets that were found in the trace: they are also hidden where no label says what they are."""
    on_usage: Callable[[Usage], None] | None = None
    """Called with the usage of each model call; not called for recorded answers."""

    def asked_by(
        self,
        role: str,
        *,
        only_same_text: bool = False,
        again: bool = False,
        version: int | None = None,
        together: bool = False,
    ) -> CallScope:
        """Return the scope in which a role begins to ask, with its recorded answers unused.

        Args:
            role: The name of the role.
            only_same_text: Whether a recorded answer is used only for a request with the same text, see
                `RecordedAnswers`.
            again: Whether it asks a second time, since what it was told before does not fit any more. Its answers are
                recorded apart from those of the first time.
            version: The version of the skillbook that it sees, to be recorded with the answers; None if it does not
                matter.
            together: Whether it asks about several samples at once, of which this is the first. Its answers are
                recorded apart from those about this one alone.
        """
        if self.store is None or not self.sample:
            return replace(self, role=role, answers=None)

        asked = f"{role} together" if together else f"{role} again" if again else role
        key = (self.run_id, self.epoch, self.sample, self.attempts.get(role, 0), asked)
        answers = RecordedAnswers(self.store, key, only_same_text=only_same_text, version=version)
        return replace(self, role=role, answers=answers)


_NOTHING = CallScope()
_current: ContextVar[CallScope] = ContextVar("ace_call_scope", default=_NOTHING)


def current_call_scope() -> CallScope:
    """Return the scope of the current model calls."""
    return _current.get()


@contextmanager
def call_scope(scope: CallScope) -> Iterator[None]:
    """Set the scope of the model calls inside the block.

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


def note_model_call(
    model: str,
    usage: Usage,
    seconds: float,
    *,
    recorded: bool = False,
    finish_reason: str = "",
    prompt: str | Sequence[Mapping[str, object]] = "",
    answer: str = "",
    server: str = "",
    request: Mapping[str, object] | None = None,
    response_model: str = "",
    response_id: str = "",
) -> None:
    """Emit an event for an answer of a model. Clients call this once for each answer.

    Args:
        model: The model string.
        usage: The tokens and the cost of the answer.
        seconds: The duration of the call, in seconds.
        recorded: Whether the answer was replayed.
        finish_reason: Why the model stopped.
        prompt: The prompt, a text or messages.
        answer: The text of the answer.
        server: The address of the server.
        request: The parameters of the request, without messages.
        response_model: The model that answered, as the server named it.
        response_id: The id of the answer.
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
            cached_input_tokens=usage.cached_input_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            finish_reason=finish_reason,
            prompt=prompt,
            answer=answer,
            server=server,
            request=request or {},
            response_model=response_model,
            response_id=response_id,
        )
    )


def note_response(
    model: str,
    response: LLMResponse,
    seconds: float,
    prompt: str | Sequence[Mapping[str, object]],
    *,
    recorded: bool = False,
    server: str = "",
    request: Mapping[str, object] | None = None,
) -> None:
    """Emit an event for a response of a client; see `note_model_call`.

    Args:
        model: The model string.
        seconds: The duration of the call, in seconds.
        prompt: The prompt, a text or messages.
        recorded: Whether the response was replayed.
        server: The address of the server.
        request: The parameters of the request, without messages.
    """
    note_model_call(
        model,
        response.usage,
        seconds,
        recorded=recorded,
        finish_reason=response.finish_reason,
        prompt=prompt,
        answer=response.text,
        server=server,
        request=request,
        response_model=_text_field(response.raw, "model"),
        response_id=_text_field(response.raw, "id"),
    )


def _text_field(raw: object, name: str) -> str:
    """Return a field of a response object, which may be a mapping or an object with attributes; empty without one."""
    value = raw.get(name) if isinstance(raw, Mapping) else attribute_of(raw, name)
    return value if isinstance(value, str) else ""


class AnswerBudget:
    """Counts model answers up to a total, and keeps them for inspection.

    Args:
        total: The number of answers that may be requested; at least 1.

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
        """The number of answers that may still be requested."""
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
    """Limit the answers that clients request inside the `with` block.

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
    """Return the budget of the enclosing `answer_budget` block, or None."""
    return _budget.get()


class AnswerStore(Protocol):
    """The part of a store with history that keeps answers."""

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Record an answer durably, unless the key already has one. Returns the one that is recorded."""


@final
class RecordedAnswers:
    """The recorded answers to the requests of one role about one sample, in the order in which they were given.

    A request gets the answer that was recorded for the same text. After an answer that it could not use, a role may
    send the same text again, so each of these requests has an answer of its own.

    When a run is resumed, the prompt of a role may differ from the one that was answered, because the skillbook has
    changed in the meantime. The answer was paid for, so it is still used: a request with an unknown text gets the first
    unused answer of the same kind. This requires that requests do not overlap; answers to overlapping requests are only
    found by their text. Thread-safe.

    Args:
        store: The store that contains them.
        key: Run, epoch, sample, attempt and role.
        only_same_text: Whether an answer is used only for a request with the same text.
        version: The version of the skillbook in the requests, which is recorded with the answers; None if it does not
            matter.

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

    def __init__(
        self,
        store: AnswerStore,
        key: Sequence[object],
        *,
        only_same_text: bool = False,
        version: int | None = None,
    ) -> None:
        self._store = store
        self._key = list(key)
        self._version = version
        self._samples: tuple[str, ...] = ()
        self._only_same_text = only_same_text
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()  # requests without an answer yet, by kind
        self._overlapping: set[str] = set()  # kinds with more than one such request, until none is left
        self._known: list[_Known] | None = None
        self._kept = 0
        self.used = 0
        """The number of answers used, new or recorded."""
        self.first_version: int | None = None
        """The oldest version that was recorded with an answer that an earlier call of the run has paid for, and that
        was used; None if there is none."""
        self.samples: tuple[str, ...] = ()
        """The names of the samples that the last answer is about, new or recorded, if it was asked for with `about`."""

    def about(self, samples: Sequence[str]) -> None:
        """Set the samples that the next requests are about, to be recorded with the answers.

        Args:
            samples: Their names.
        """
        self.samples = self._samples = tuple(samples)

    def has_next(self) -> bool:
        """Return whether there is a recorded answer that has not been used yet."""
        with self._lock:
            return any(not call.is_used for call in self._recorded())

    def next(self, request: str, kind: str = "") -> str | None:
        """Return the recorded answer to a request, or None if the model has to be asked.

        Args:
            request: Everything that the model would see, and the settings that affect the answer.
            kind: The part of the request that does not depend on the skillbook, such as the model and the settings. If
                it is empty, only an answer to the same text is used.
        """
        digest = _hash(request)
        with self._lock:
            found = self._find(digest, _hash(kind) if kind else "")
            if found is None:
                self._waiting[kind] += 1
                if self._waiting[kind] > 1:
                    self._overlapping.add(kind)
                self.samples = self._samples
                return None
            found.is_used = True
            self.used += 1
            self.samples = found.samples
            if found.version is not None:
                versions = (found.version,) if self.first_version is None else (found.version, self.first_version)
                self.first_version = min(versions)
            return found.answer

    def keep(self, request: str, answer: str, kind: str = "") -> str:
        """Record an answer durably, and return the one to use. Call it before the answer is used.

        Args:
            request: As for `next`.
            answer: The answer of the model.
            kind: As for `next`.
        """
        digest = _hash(request)
        with self._lock:
            # With two requests of one kind at once, a resumed run can only tell by the text whose answer this is.
            overlapped = kind in self._overlapping
            self._waiting[kind] = max(0, self._waiting[kind] - 1)
            if not self._waiting[kind]:
                self._overlapping.discard(kind)
            self.used += 1
        entry: dict[str, object] = {
            "request": digest,
            "kind": "" if overlapped or not kind else _hash(kind),
            "answer": answer,
        }
        if self._version is not None:
            entry["version"] = self._version
        if self._samples:
            entry["samples"] = list(self._samples)
        text, now = json.dumps(entry, ensure_ascii=False), datetime.now(UTC).isoformat()
        while True:
            kept = _Known.read(self._store.record_answer(self._next_name(), text, now))
            if kept.digest == digest:  # else another process has recorded one here, in a store without locks
                return kept.answer

    def _next_name(self) -> str:
        with self._lock:
            self._kept += 1
            return self._name(len(self._recorded()) + self._kept)

    def _find(self, digest: str, kind: str) -> _Known | None:
        unused = [call for call in self._recorded() if not call.is_used]
        same_text = next((call for call in unused if call.digest == digest), None)
        if same_text is not None or self._only_same_text or not kind:
            return same_text
        return next((call for call in unused if call.kind == kind), None)

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
    version: int | None = None
    samples: tuple[str, ...] = ()
    is_used: bool = False

    @classmethod
    def read(cls, entry: str) -> _Known:
        fields = json.loads(entry)
        return cls(
            fields["request"], fields["kind"], fields["answer"], fields.get("version"), tuple(fields.get("samples", ()))
        )


def response_to_record(response: LLMResponse, secrets: Sequence[str] | None = None) -> str:
    """Return a response as a string for the record, with secrets and personal data redacted.

    Args:
        response: The response of the model.
        secrets: Keys to redact; by default those of the environment.
    """
    usage = response.usage
    scope = current_call_scope()
    known = known_secrets() if secrets is None else secrets
    redactor = Redactor([*known, *scope.secrets], allow=scope.allow)
    return json.dumps(
        {
            "text": redactor.redact(response.text),
            "finish_reason": response.finish_reason,
            "refusal": redactor.redact(response.refusal),
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": None if usage.unpriced_calls else usage.cost,
            "cached_input_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
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
    """Record a response durably, and return the one to use.

    Secrets and personal data are redacted in the record. In the response that the run itself uses, only known secrets
    are, because an agent that was asked for a mail address has to be able to give it.

    Args:
        answers: The record.
        request: As for `RecordedAnswers.next`.
        response: The response of the model.
        secrets: Keys to redact; by default those of the environment.
        kind: As for `RecordedAnswers.next`.
    """
    record = response_to_record(response, secrets)
    kept = answers.keep(request, record, kind)
    if kept != record:  # another process was first
        return replace(recorded_response(kept), usage=response.usage)
    return replace(response, text=redact(response.text, secrets))


def recorded_response(record: str) -> LLMResponse:
    """Return the response in a record. Its usage is that of the original call.

    Args:
        record: A string from `response_to_record`.

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
        cached_input_tokens=data.get("cached_input_tokens", 0),  # older records lack it
        cache_write_tokens=data.get("cache_write_tokens", 0),
    )
    refusal = data.get("refusal", "")
    return LLMResponse(data["text"], usage=usage, finish_reason=data["finish_reason"], refusal=refusal)


def _hash(request: str) -> str:
    return hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()


def redactor_for(*clients: object) -> Redactor:
    """Return the redactor for everything that is sent to the learning model, or stored.

    It knows the secrets of the environment, the keys of these clients and the secrets of the trace, and does not redact
    what the run allows (`CallScope.allow`).

    Args:
        *clients: Clients, as `client_keys` takes them.
    """
    scope = current_call_scope()
    return _redactor((*known_secrets(*clients), *scope.secrets), scope.allow)


# Redactors do not change, and all samples of a run need the same few.
@functools.lru_cache(maxsize=16)
def _redactor(secrets: tuple[str, ...], allow: frozenset[str]) -> Redactor:
    return Redactor(secrets, allow=allow)


class AnswerProblem(ValueError):
    """An answer is not usable; the message tells the model what to change."""


class RejectedAnswer(NamedTuple):
    """The last answer of a model, which was not usable."""

    text: str
    """The raw text of the answer."""
    problem: str
    """What is wrong with it and, from the second one on, how many answers could not be used.

    So it is different each time: at temperature 0, a repeated prompt gets a repeated answer.
    """


async def until_usable(
    ask: Callable[[RejectedAnswer | None], Awaitable[Answer]],
    read: Callable[[Answer], T],
    *,
    text_of: Callable[[Answer], str],
    max_retries: int,
    role: str = "",
) -> T:
    """Ask until an answer is usable.

    Every answer counts against the budget of an enclosing `answer_budget` block, so the loop may end before
    `max_retries` is reached. Answers that `ask` has recorded in the budget itself, as clients with their own retries
    do, are not counted twice.

    Args:
        ask: Asks the model. Its argument is the last rejected answer; None at first.
        read: Returns the content of an answer, or raises `AnswerProblem`.
        text_of: Returns the raw text of an answer.
        max_retries: How often to ask again; at least 0.
        role: The name of the role that asks, for the error.

    Returns:
        What `read` returned.

    Raises:
        UnusableAnswerError: No answer was usable; the error contains all of them.

    Example:
        >>> from ace.calls import BLOCKING, finished
        >>> answers = iter(["four", "4"])
        >>> async def ask(rejected):
        ...     return next(answers)
        >>> def read(answer):
        ...     if not answer.isdigit():
        ...         raise AnswerProblem("answer with a number")
        ...     return int(answer)
        >>> finished(until_usable(ask, read, text_of=str, max_retries=2))
        4
    """
    rejected: RejectedAnswer | None = None
    with _open_budget(max_retries + 1) as budget:
        before = len(budget.answers)
        while True:
            recorded = len(budget.answers)
            answer = await ask(rejected)
            if len(budget.answers) == recorded:
                budget.record(text_of(answer))
            try:
                return read(answer)
            except AnswerProblem as error:
                problem = str(error)
            answers = budget.answers[before:]
            if len(answers) > max_retries or budget.left == 0:
                raise UnusableAnswerError(problem, raw_answers=answers, role=role)
            rejected = RejectedAnswer(answers[-1], _counted(problem, len(answers)))


def _counted(problem: str, answers: int) -> str:
    if answers == 1:
        return problem
    return f"{problem}; your last {answers} answers could not be used, so answer differently"


@contextmanager
def _open_budget(total: int) -> Iterator[AnswerBudget]:
    """Yield the current budget, or open a new one."""
    outer = current_answer_budget()
    if outer is not None:
        yield outer
        return
    with answer_budget(total) as budget:
        yield budget
