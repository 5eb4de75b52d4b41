"""The events of runs, samples, model calls and skills, and the registry of observers, which `ace.plugins` fills."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ace._internal.registry import Registry
from ace.protocols.errors import error_text

__all__ = [
    "AnswerEvaluated",
    "BatchJudged",
    "Event",
    "ModelCalled",
    "Observer",
    "ReflectionTurn",
    "RunEnded",
    "RunStarted",
    "SampleEnded",
    "SampleStarted",
    "SkillChange",
    "SkillProven",
    "SkillsChanged",
    "StepEnded",
    "StepStarted",
    "SubQuestionAnswered",
    "TraceShortened",
    "emit",
    "is_observed",
    "observing",
    "register_observer",
    "unregister_observer",
]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run has started."""

    run_id: str
    """The name of the run."""
    runner: str
    """The kind of runner, such as `ace` or `trace_analyser`."""
    epochs: int
    """The number of passes over the inputs."""
    total: int | None
    """The number of inputs; None if it is unknown."""
    resumed: bool
    """Whether an earlier call of `run` started it."""
    recovered: bool = False
    """Whether that earlier call was killed, so that its `RunEnded` was never emitted."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has ended, including its background steps."""

    run_id: str
    """The name of the run."""
    learned: int
    """Samples that went through to the end."""
    already_learned: int
    """Samples that an earlier call of this run had learned."""
    failed: int
    """Samples that failed."""
    cancelled: int
    """Samples that were not started or not finished because the run was stopped. A resumed run processes them."""
    seconds: float
    """The duration in seconds."""
    stopped_by: str
    """Empty if nothing stopped it; else `authentication` (the key was refused), `server_failures` (the model could not
    be reached for several samples in a row), `skillbook_not_written`, `cancelled`, `max_cost`, `fail_fast`,
    `early_stopping` or `interrupted`."""


@dataclass(frozen=True, slots=True)
class SampleStarted:
    """A sample was drawn from the input; its first step has not started yet."""

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    epoch: int
    """The epoch, from 1."""
    index: int
    """Its position in the epoch, from 1."""


@dataclass(frozen=True, slots=True)
class SampleEnded:
    """A sample has passed its last step, background steps included, or will not pass any further step."""

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    epoch: int
    """The epoch, from 1."""
    index: int
    """Its position in the epoch, from 1."""
    error: BaseException | None
    """The error; a `PipelineCancelled` if the run was stopped."""
    failed_at: str | None
    """The step that failed, or that would have been next."""
    seconds: float
    """The time since it was drawn, in seconds; 0 if there was nothing to do."""
    already_learned: bool
    """Whether an earlier call of this run, or another run, has learned it or is learning it, so nothing was done."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step has started to process a sample.

    The events that the step causes, and its `StepEnded`, are emitted in the same `contextvars` context, even on other
    threads, so they see the context variables that an observer sets here.
    """

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    step: str
    """The name of the step's class."""
    epoch: int = 0
    """The epoch of the sample, as in `SampleStarted`; 0 if it is not known."""
    index: int = 0
    """The position of the sample in its epoch, as in `SampleStarted`; 0 if it is not known."""
    background: bool = False
    """Whether the step is after the `async_boundary`, and so runs in the background."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step has returned, or raised."""

    run_id: str
    """The name of the run."""
    trace_id: str
    """The name of the sample or trace."""
    step: str
    """The name of the step's class."""
    seconds: float
    """The duration in seconds."""
    error: BaseException | None
    """The error that it raised."""
    epoch: int = 0
    """As in `StepStarted`."""
    index: int = 0
    """As in `StepStarted`."""
    background: bool = False
    """As in `StepStarted`."""


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A model answered, or a recorded answer was replayed."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample or trace; empty outside a run."""
    model: str
    """The model string."""
    role: str
    """The role that made the call, such as `Reflector`; empty outside a role."""
    input_tokens: int
    """The tokens of the prompt, as the server reported them."""
    output_tokens: int
    """The tokens of the answer, as the server reported them."""
    cost: float | None
    """The cost in US dollars; None if the price is unknown."""
    seconds: float
    """The duration of the call, in seconds."""
    recorded: bool
    """Whether the answer was recorded by an earlier attempt of the run, which spent its tokens and cost."""
    cached_input_tokens: int = 0
    """The part of `input_tokens` that the provider had in its cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the provider wrote to its cache."""
    finish_reason: str = ""
    """Why the model stopped, such as `stop` or `length`; empty if the server did not report it."""
    prompt: str | Sequence[Mapping[str, object]] = ""
    """The prompt, a text or messages; empty if the client does not provide it. Not redacted."""
    answer: str = ""
    """The text of the answer; empty if the client does not provide it. Not redacted."""
    server: str = ""
    """The address of the server; empty if the client does not provide it."""
    request: Mapping[str, object] = field(default_factory=dict)
    """The parameters of the request, such as `max_tokens` and `temperature`, without messages."""
    response_model: str = ""
    """The model that answered, as the server named it; empty if it did not."""
    response_id: str = ""
    """The id of the answer; empty if the server did not give one."""


@dataclass(frozen=True, slots=True)
class AnswerEvaluated:
    """An environment has judged the answer to a sample."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample; empty outside a run."""
    environment: str
    """The name of the environment's class."""
    metrics: Mapping[str, float]
    """The scores, by their names."""


@dataclass(frozen=True, slots=True)
class SkillChange:
    """One operation on a skill."""

    kind: str
    """`ADD`, `UPDATE`, `TAG`, `REMOVE`, `MERGE`, `DELETE` or `KEEP`."""
    skill_id: str
    """The skill; for a merge the one that remains. Empty if a skipped operation did not name one."""
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
    """The applied operations, in order."""
    skipped: tuple[SkillChange, ...]
    """The skipped operations, with their reasons."""


@dataclass(frozen=True, slots=True)
class SkillProven:
    """A skill was tested on the case that taught it."""

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
    """The number of further texts that were tried."""
    reason: str = ""
    """Why the skill was dropped; empty if it was kept."""


@dataclass(frozen=True, slots=True)
class TraceShortened:
    """A trace was longer than what the model may be shown, and parts of it were cut."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample or trace; empty outside a run."""
    cut_characters: int
    """How many characters were cut."""


@dataclass(frozen=True, slots=True)
class BatchJudged:
    """A gate has decided whether the operations of a sample are applied."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample or trace; empty outside a run."""
    gate: str
    """The class of the gate, such as `CounterGate`."""
    accepted: bool
    """Whether the operations are applied."""
    reason: str
    """The reason."""
    before: Mapping[str, float]
    """The gate's figures for the skillbook without the operations."""
    after: Mapping[str, float]
    """The same figures with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightsFound:
    """The insights of a trace were recorded: some are learned now, the others stay pending."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample or trace; empty outside a run."""
    task_id: str
    """The id of the task; for traces that are not attempts at tasks, the place of the trace."""
    description: str
    """The description of the task, redacted; empty with `provenance="ids"`."""
    success: bool | None
    """Whether the attempt succeeded; None if it partly succeeded, or if it is not known."""
    consulted: int
    """The number of skills that were consulted."""
    files: int
    """The number of files that the errors of the attempt name."""
    min_confidence: float
    """The minimum confidence of insights to learn, from 0 to 1."""
    ready: int
    """The number of insights with at least this confidence."""
    pending: int
    """The number of the other insights."""
    pending_ids: Sequence[str] = ()
    """The ids of the other insights in the log."""


@dataclass(frozen=True, slots=True)
class ArtifactWritten:
    """The folder of an accepted version was written, see `ace.steps.ArtifactStep`."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The sample or trace that taught the version."""
    version: int
    """The version of the skillbook."""
    folder: str
    """The path of the folder."""


@dataclass(frozen=True, slots=True)
class ReflectionTurn:
    """A recursive reflection has finished a turn."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample or trace; empty outside a run."""
    iteration: int
    """The number of the turn, from 1."""
    code_length: int
    """The length of the code, in characters; 0 if the answer had none."""
    output_length: int
    """The length of what the code printed, in characters."""
    error: str
    """The error of the code; empty if there was none."""
    seconds: float
    """How long the model call and the code took."""


@dataclass(frozen=True, slots=True)
class SubQuestionAnswered:
    """A model answered a sub-question of a recursive reflection."""

    run_id: str
    """The name of the run; empty outside one."""
    trace_id: str
    """The name of the sample or trace; empty outside a run."""
    number: int
    """The number of the question in its reflection, from 1."""
    mode: str
    """`analysis`, `deep_dive` or `query`."""
    characters: int
    """The length of the answer, in characters."""
    seconds: float
    """How long the answer took."""


Event = (
    RunStarted
    | RunEnded
    | SampleStarted
    | SampleEnded
    | StepStarted
    | StepEnded
    | ModelCalled
    | AnswerEvaluated
    | SkillsChanged
    | SkillProven
    | BatchJudged
    | InsightsFound
    | ArtifactWritten
    | ReflectionTurn
    | SubQuestionAnswered
    | TraceShortened
)
"""All events that observers receive."""

Observer = Callable[[Event], None]

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_numbers = itertools.count(1)
_failures: dict[str, int] = {}
"""How often each observer has failed since the last run ended, under `_lock`."""
_observers = Registry[Observer]("observers", "an observer")


def is_observed() -> bool:
    """Return whether there is an observer. Emitters check this before they create an event."""
    return bool(_observers.all())


def emit(event: Event) -> None:
    """Call every observer, on this thread, in the order of their registration.

    An observer that raises is logged with its name and the exception, the first time in a run; how often it failed
    is logged when the run ends. The other observers and the run continue, even if a log handler raises as well: the
    code that emits events must still count the sample as done.
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
    """Call a function with every event from now on, in all threads of the process.

    Events of different samples may arrive at the same time, from several threads.

    Args:
        name: A unique name.
        observer: The function. It should be quick, since the run waits for it.

    Raises:
        ValueError: Another observer has the name.
    """
    _observers.register(name, observer)


def unregister_observer(name: str) -> None:
    """Unregister an observer; an unknown name is ignored.

    Args:
        name: Its name.
    """
    _observers.unregister(name)
    with _lock:
        _failures.pop(name, None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call a function with the events of the process while the block runs.

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
