"""For whom a model is called: the run, the sample and the role, carried by a context variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ace.protocols.events import ModelCalled
from ace.protocols.observers import emit, is_observed

if TYPE_CHECKING:
    from ace.protocols.llm import Usage
    from ace.protocols.recorded_answers import AnswerStore, RecordedAnswers

__all__ = ["CallScope", "call_scope", "current_call_scope", "note_model_call"]


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
        from ace.protocols.recorded_answers import RecordedAnswers

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
