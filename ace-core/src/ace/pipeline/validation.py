"""The checks of a pipeline when it is built or called, and of a sample before its first step."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import warnings
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, ParamSpec, TypeVar, final

from .cancellation import CancellationToken
from .context import StepContext
from .errors import PipelineConfigError, PipelineError, PipelineOrderError, PipelineTypeError
from .hooks import PipelineHook
from .in_flight import OnSample
from .segment import Position, StepObserver
from .step import PlannedStep, StepProtocol

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=StepContext)


def suggesting_keywords(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method so that its error for an unknown keyword names the class and suggests the right keyword.

    The arguments are inspected only after a call has failed.

    Example:
        >>> class Greeter:
        ...     @suggesting_keywords
        ...     def greet(self, *, name: str) -> str:
        ...         return f"Hello {name}"
        >>> Greeter().greet(nmae="Ann")
        Traceback (most recent call last):
        ...
        TypeError: Greeter.greet() got an unexpected keyword argument 'nmae'; did you mean 'name'?
    """

    @functools.wraps(method)
    def suggesting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            # With a frame below this one, the method was entered, and the error is not about the call.
            traceback = error.__traceback__
            problem = None if traceback is None or traceback.tb_next else _problem(method, args, kwargs)
            if problem is None:
                raise
            raise TypeError(problem) from None

    return suggesting


def _problem(method: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> str | None:
    import difflib  # slow to import, and only needed for an error

    names = [
        parameter.name
        for parameter in inspect.signature(method).parameters.values()
        if parameter.kind is not parameter.VAR_POSITIONAL
    ]
    unknown = next((name for name in kwargs if name not in names), None)
    if unknown is None:
        return None
    owner = type(args[0]).__name__ if args else ""
    called = owner if method.__name__ == "__init__" else f"{owner}.{method.__name__}"
    # The engine imports nothing of ace, so it does not have `ace._internal.arguments.closest_name`.
    near = difflib.get_close_matches(unknown, names[1:], 1, cutoff=0.7)
    advice = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(names[1:])}"
    return f"{called}() got an unexpected keyword argument {unknown!r}; {advice}"


_ALWAYS_THERE = frozenset({"sample", "metadata"})


def required_from_outside(steps: Sequence[PlannedStep[C]]) -> dict[str, str]:
    """Return the fields that no earlier step provides, each with the name of the first step that requires it."""
    wanted: dict[str, str] = {}
    provided: set[str] = set()
    for step in steps:
        for field in sorted(step.requires - provided):
            wanted.setdefault(field, step.name)
        provided |= step.provides
    return wanted


def check_order(steps: Sequence[PlannedStep[C]]) -> None:
    """Check that no step requires a field that only a later one provides.

    Raises:
        PipelineOrderError: If a step does.
    """
    provided: set[str] = set()
    for index, step in enumerate(steps):
        for field in sorted(step.requires - provided - step.provides - _ALWAYS_THERE):
            provider = next((later for later in steps[index + 1 :] if field in later.provides), None)
            if provider is not None:
                raise PipelineOrderError(
                    f"step {step.name} (number {index + 1}) requires the field {field!r}, which only the later step "
                    f"{provider.name} provides; put {provider.name} before {step.name}"
                )
        provided |= step.provides


def check_boundaries(steps: Sequence[PlannedStep[C]]) -> None:
    """Check that at most one step declares an async boundary, and that it does not split a lane.

    Raises:
        PipelineConfigError: If two steps declare one, or it splits a lane.
    """
    declaring = [step for step in steps if step.async_boundary]
    if len(declaring) > 1:
        raise PipelineConfigError(
            f"steps {declaring[0].name} and {declaring[1].name} both declare an async boundary; a pipeline has only "
            f"one, and all steps after the first boundary are in the background; remove it from {declaring[1].name}"
        )
    for before, step in pairwise(steps):
        if step.async_boundary and step.lane is not None and step.lane == before.lane:
            raise PipelineConfigError(
                f"the async boundary at step {step.name} splits lane {step.lane!r}, which {before.name} is in too; put "
                f"the boundary on the first step of the lane, or give the two steps different lanes"
            )


def warn_of_what_nesting_switches_off(step: PlannedStep[C], *, stacklevel: int) -> None:
    """Warn if the step is a pipeline or a branch with a boundary or a lane inside."""
    if step.has_inner_lane:
        warnings.warn(
            f"a lane inside the {step.name} has no effect: as a step of another pipeline it is one step, and several "
            f"samples may be inside at once; put the steps with the lane into the outer pipeline",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    if step.has_inner_boundary:
        warnings.warn(
            f"an async boundary inside the nested {step.name} has no effect: as a step of another pipeline it runs "
            f"through in the foreground; put the boundary on a step of the outer pipeline",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def listed(steps: Iterable[StepProtocol[C]] | None) -> list[StepProtocol[C]]:
    """Return the steps that a pipeline was given as a list.

    Raises:
        PipelineConfigError: If they are something else.
    """
    if steps is not None and not isinstance(steps, Iterable):
        raise PipelineConfigError(f"steps is {steps!r}; it must be a list of steps: Pipeline([step, ...])")
    return list(steps or ())


def listed_hooks(hooks: Iterable[PipelineHook] | None) -> tuple[PipelineHook, ...]:
    """Return the hooks that a pipeline was given as a tuple.

    Raises:
        PipelineConfigError: If they are something else.
    """
    argument: object = hooks
    if isinstance(argument, PipelineHook):
        raise PipelineTypeError(f"hooks is a single {type(argument).__name__}; pass a list of hooks: hooks=[hook]")
    if argument is not None and not isinstance(argument, Iterable):
        raise PipelineTypeError(f"hooks is {argument!r}; it must be a list of hooks: Pipeline(steps, hooks=[hook])")
    all_hooks = tuple(hooks or ())
    for hook in all_hooks:
        if not isinstance(hook, PipelineHook):
            raise PipelineConfigError(
                f"hook {type(hook).__name__} lacks before_step or after_step; see ace.pipeline.PipelineHook"
            )
    return all_hooks


def check_settings(background_limit: object, step_observer: object) -> None:
    """Check the other arguments of a pipeline.

    Raises:
        PipelineConfigError: If an argument is invalid.
    """
    if not isinstance(background_limit, int) or isinstance(background_limit, bool) or background_limit < 1:
        raise PipelineConfigError(f"background_limit must be a whole number of at least 1, got {background_limit!r}")
    if step_observer is not None and not isinstance(step_observer, StepObserver):
        raise PipelineConfigError(
            f"step_observer {type(step_observer).__name__} lacks step_started or step_ended; see "
            f"ace.pipeline.StepObserver"
        )


@final
@dataclass(frozen=True, slots=True)
class RunArguments(Generic[C]):
    """The arguments of `run`, `run_async`, `stream` or `astream` other than the input; see `Pipeline.run`."""

    workers: int
    on_sample_done: OnSample[C] | None
    on_sample_end: OnSample[C] | None
    max_in_flight: int | None
    cancel_token: CancellationToken | None

    @property
    def has_callbacks(self) -> bool:
        """Whether a callback was given."""
        return self.on_sample_done is not None or self.on_sample_end is not None


def check_call(contexts: object, options: RunArguments[C], *, asynchronous: bool) -> None:
    """Check the arguments of a run.

    Raises:
        TypeError: If `contexts` is not an iterable of contexts, is asynchronous where that is not supported, or another
            argument has the wrong type.
        ValueError: If `workers` or `max_in_flight` is below 1.
    """
    if isinstance(contexts, StepContext):
        raise TypeError("contexts is a single context; pass a list of contexts: run([ctx])")
    if isinstance(contexts, AsyncIterable) and not asynchronous:
        raise TypeError("contexts is an asynchronous iterable; use run_async or astream")
    if not isinstance(contexts, (Iterable, AsyncIterable)):
        raise TypeError(f"contexts is {contexts!r}; it must be an iterable of contexts, such as a list")
    _check_count("workers", options.workers)
    if options.max_in_flight is not None:
        _check_count("max_in_flight", options.max_in_flight, or_none=", or None for no limit")
    _check_callback("on_sample_done", options.on_sample_done)
    _check_callback("on_sample_end", options.on_sample_end)
    cancel_token: object = options.cancel_token
    if cancel_token is not None and not isinstance(cancel_token, CancellationToken):
        raise TypeError(f"cancel_token is {cancel_token!r}; it must be a CancellationToken, or None")


def _check_count(name: str, count: object, or_none: str = "") -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{name} must be a whole number{or_none}, got {count!r}")
    if count < 1:
        raise ValueError(f"{name} must be at least 1{or_none}, got {count}")


def _check_callback(name: str, callback: object) -> None:
    if callback is None:
        return
    if not callable(callback):
        raise TypeError(f"{name} is {callback!r}; it must be a function of one result, or None")
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(_call_of(callback)):
        raise TypeError(f"{name} is asynchronous and would have to be awaited; pass a plain function")


def _call_of(callback: object) -> object:
    """Return the `__call__` of an object, because `inspect` does not look at it for instances."""
    return getattr(callback, "__call__", None)  # noqa: B004  (it is inspected, not tested for)


def check_timeout(timeout: object) -> None:
    """Check the timeout of a wait.

    Raises:
        TypeError: If it is not a number of seconds.
    """
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and not math.isnan(timeout)
    if timeout is not None and not is_number:
        raise TypeError(f"timeout is {timeout!r}; it must be a number of seconds, or None to wait indefinitely")


@final
class InputCheck(Generic[C]):
    """Checks that a context has the fields that a pipeline needs from outside.

    Args:
        wanted: The names of the fields, each with the first step that requires it.

    Attributes:
        complete_classes: Classes whose instances need no check, because their fields include all required ones.
    """

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self._wanted = tuple(wanted.items())
        self.complete_classes: set[type] = set()

    def check(self, ctx: C, position: Position) -> None:
        """Check a context before its first step.

        Raises:
            PipelineError: If it lacks a field; `position` then names the step that requires it.
        """
        cls: type[object] = type(ctx)
        if cls in self.complete_classes:
            return
        for field, step_name in self._wanted:
            if not hasattr(ctx, field):
                position.step_name = step_name
                if not isinstance(ctx, StepContext):
                    raise PipelineError(
                        f"step {step_name} requires the field {field!r}, but {cls.__name__} is not a context; wrap "
                        f"each sample in one: run([StepContext(sample), ...])"
                    )
                raise PipelineError(
                    f"step {step_name} requires the field {field!r}, which {cls.__name__} lacks and no earlier step "
                    f"provides; add the field to {cls.__name__}, or put a step that provides it before {step_name}"
                )
        # Every instance of a dataclass has its fields, so further instances need no check.
        fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
        if fields.issuperset(name for name, _ in self._wanted):
            self.complete_classes.add(cls)
