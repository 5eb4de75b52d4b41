"""The events of runs, samples, model calls and skills, and the registry of observers, which `ace.plugins` fills."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ace.protocols.errors import error_text
from ace.registry import Registry

__all__ = [
    "Event",
    "ModelCalled",
    "Observer",
    "RunEnded",
    "RunStarted",
    "SampleEnded",
    "SampleStarted",
    "SkillChange",
    "SkillProven",
    "SkillsChanged",
    "StepEnded",
    "StepStarted",
    "emit",
    "is_observed",
    "observing",
    "register_observer",
    "unregister_observer",
]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins."""

    run_id: str
    """The name of the run."""
    runner: str
    """What kind of runner it is, such as `ace` or `trace_analyser`."""
    epochs: int
    """The number of passes over the inputs."""
    total: int | None
    """How many inputs there are; None where that is not known."""
    resumed: bool
    """Whether an earlier call of `run` had begun it."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run is over, its background too."""

    run_id: str
    """The name of the run."""
    learned: int
    """Samples that went through to the end."""
    already_learned: int
    """Samples that an earlier call of this run had learned."""
    failed: int
    """Samples that failed."""
    cancelled: int
    """Samples that were not begun, or not finished, since the run was stopped. A resumed run takes them up."""
    seconds: float
    """How long it took."""
    stopped_by: str
    """Empty if nothing stopped it; else `authentication` (the key was refused), `server_failures` (the model could not
    be reached for several samples in a row), `skillbook_not_written`, `cancelled`, `max_cost`, `fail_fast`,
    `early_stopping` or `interrupted`."""


@dataclass(frozen=True, slots=True)
class SampleStarted:
    """A sample was drawn from the input, and its first step comes."""

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    epoch: int
    """From 1."""
    index: int
    """Its place in the epoch, from 1."""


@dataclass(frozen=True, slots=True)
class SampleEnded:
    """A sample has passed its last step, in the background too, or will pass no further one."""

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    epoch: int
    """From 1."""
    index: int
    """Its place in the epoch, from 1."""
    error: BaseException | None
    """What went wrong; a `PipelineCancelled` if the run was stopped."""
    failed_at: str | None
    """The step that failed, or that would have come next."""
    seconds: float
    """The time since it was drawn; 0 if there was nothing to do."""
    already_learned: bool
    """Whether an earlier call of this run had learned it, so that nothing was done."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step begins with a sample."""

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    step: str
    """The name of its class."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step has returned, or raised."""

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    step: str
    """The name of its class."""
    seconds: float
    """How long it took."""
    error: BaseException | None
    """What it raised."""


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A model answered, or an answer that was recorded earlier was used."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample or trace; empty outside a run."""
    model: str
    """The model string."""
    role: str
    """Who asked, such as `Reflector`; empty outside a role."""
    input_tokens: int
    """The tokens of the prompt, as the server reported them."""
    output_tokens: int
    """The tokens of the answer, as the server reported them."""
    cost: float | None
    """US dollars; None where the price is not known."""
    seconds: float
    """How long the answer took."""
    recorded: bool
    """Whether the answer came from the record of a run: tokens and cost were spent when it was made, not now."""


@dataclass(frozen=True, slots=True)
class SkillChange:
    """One operation on a skill."""

    kind: str
    """`ADD`, `UPDATE`, `TAG`, `REMOVE`, `MERGE`, `DELETE` or `KEEP`."""
    skill_id: str
    """The skill; for a merge the one that stays. Empty where a skipped operation named none."""
    reason: str = ""
    """Why it was skipped; empty if it was applied."""


@dataclass(frozen=True, slots=True)
class SkillsChanged:
    """A skillbook was changed by a step."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The sample or trace that taught it."""
    applied: tuple[SkillChange, ...]
    """What was applied, in order."""
    skipped: tuple[SkillChange, ...]
    """What was skipped, with the reason."""


@dataclass(frozen=True, slots=True)
class SkillProven:
    """A skill was tried on the case that taught it."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The sample or trace that taught it."""
    skill_id: str
    """The skill; empty if it was dropped before it had an id."""
    passed: bool | None
    """Whether the case passes with the skill; None if its answer could not be judged. It is False for a skill that was
    dropped because it breaks another case."""
    before: str
    """The answer without the skill."""
    after: str
    """The answer with it."""
    retries: int
    """How many other texts were tried."""
    reason: str = ""
    """Why the skill was dropped; empty if it was kept."""


Event = (
    RunStarted
    | RunEnded
    | SampleStarted
    | SampleEnded
    | StepStarted
    | StepEnded
    | ModelCalled
    | SkillsChanged
    | SkillProven
)
"""Everything that observers are told."""

Observer = Callable[[Event], None]

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_numbers = itertools.count(1)
_failures: dict[str, int] = {}
"""How often each observer has failed since the last run ended, under `_lock`."""
_observers = Registry[Observer]("observers", "an observer")


def is_observed() -> bool:
    """Return whether there is an observer. Emitters ask first, so that an event without an observer is not created."""
    return bool(_observers.all())


def emit(event: Event) -> None:
    """Tell every observer, on this thread, in the order of their registration.

    An observer that raises is logged with its name and the exception, the first time in a run; how often it failed
    is logged when the run ends. The others and the run continue. So they do if a handler of the log raises as well:
    events are emitted from places that have to count a sample as done.

    Args:
        event: What happened.
    """
    for name, observer in _observers.all().items():
        try:
            observer(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an observer that calls sys.exit() must not end the run
            with suppress(Exception):
                _log_failure(name, event, error)
    if _failures and isinstance(event, RunEnded):
        with suppress(Exception):
            _log_repeated_failures()


def _log_failure(name: str, event: Event, error: BaseException) -> None:
    with _lock:
        _failures[name] = _failures.get(name, 0) + 1
        is_first = _failures[name] == 1
    if is_first:
        said = ": ".join(filter(None, (type(error).__name__, error_text(error))))
        _logger.error(
            "observer %r failed at %s: %s; the run continues", name, type(event).__name__, said, exc_info=error
        )


def _log_repeated_failures() -> None:
    with _lock:
        failures = dict(_failures)
        _failures.clear()
    for name, count in failures.items():
        if count > 1:
            _logger.error("observer %r failed %d times in this run", name, count)


def register_observer(name: str, observer: Observer) -> None:
    """Have a function called with every event from now on, in all threads of the process.

    Events of different samples may come at the same time, from several threads.

    Args:
        name: A unique name.
        observer: The function. It should be quick, since the run waits for it.

    Raises:
        ValueError: Another observer has the name.
    """
    _observers.register(name, observer)


def unregister_observer(name: str) -> None:
    """Forget an observer; an unknown name is ignored.

    Args:
        name: Its name.
    """
    _observers.unregister(name)
    with _lock:
        _failures.pop(name, None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Have a function called with the events of the process while the block runs.

    Args:
        observer: The function.

    Example:
        >>> seen = []
        >>> with observing(seen.append):
        ...     emit(SkillsChanged("run", "trace", (SkillChange("ADD", "maths-00001"),), ()))
        >>> seen[0].applied[0].skill_id
        'maths-00001'
    """
    name = f"{getattr(observer, '__qualname__', type(observer).__name__)} {next(_numbers)}"
    register_observer(name, observer)
    try:
        yield
    finally:
        unregister_observer(name)
