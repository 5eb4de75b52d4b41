"""`IntegrationRunner`: an agent of a framework runs tasks and learns from its results."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from ace._internal.arguments import check_keywords, checked_arguments
from ace.calls.calling import own_twin
from ace.pipeline import StepProtocol
from ace.protocols.errors import LLMAuthenticationError, LLMCallError
from ace.runners.base import ACERunner
from ace.runners.learning_keywords import LearningOptions
from ace.runners.learning_settings import CLIENT_SETTINGS, LearningSettings, learning_client
from ace.runners.run_keywords import RunOptions
from ace.runners.run_options import AHEAD_OF_LEARNING, RunSettings

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import ReflectorLike, SkillManagerLike
    from ace.skillbook import Skillbook

__all__ = ["IntegrationRunner"]

Step = StepProtocol[Any]
_logger = logging.getLogger(__name__)
_ASKED = "Reply with OK."
_MOST_TOKENS = 16
_CLIENT_OPTIONS = ("ace_model", "ace_max_tokens", "ace_llm")


class IntegrationRunner(ACERunner):
    """Runs tasks with an agent of a framework and learns from them: ExecuteStep, ToTrace, `learning_tail`.

    The runner of a framework is a subclass that names its two steps. It may redefine `from_roles`, `from_model` and
    `build_steps` with the exact arguments of its step.

    Example:
        >>> class Shout:
        ...     requires, provides = frozenset({"sample", "skillbook"}), frozenset({"trace"})
        ...
        ...     def __init__(self, ending: str) -> None:
        ...         self.ending = ending
        ...
        ...     def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        ...         return ctx.replace(trace=ctx.sample.upper() + self.ending)
        >>> class ShoutToTrace:
        ...     requires = provides = frozenset({"trace"})
        ...
        ...     def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        ...         return ctx.replace(trace={"question": ctx.sample, "answer": ctx.trace})
        >>> class Shouter(IntegrationRunner):
        ...     integration = "shouter"
        ...     execute_step = Shout
        ...     to_trace = ShoutToTrace
        >>> Shouter.from_model("!", ace_model="gpt-4o-mini").integration
        'shouter'
    """

    execute_step: ClassVar[Callable[..., Step]]
    """Creates the step that runs the framework and puts its result on `ctx.trace`; usually the step's class."""
    to_trace: ClassVar[Callable[[], Step]]
    """Creates the step that turns that result into the standard trace dict; usually the step's class."""
    tasks_ahead: ClassVar[int] = AHEAD_OF_LEARNING
    """By default, how many tasks may wait to be learned from while the next one starts; 0 where a task costs more than
    the wait."""

    _unchecked: Any = None
    """The client whose key is to be checked before the first run."""

    # The first three accept any arguments, so that a subclass may redefine them with exact ones.
    @classmethod
    def build_steps(cls, *args: Any, **options: Any) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change.

        Args:
            *args: Those of `from_roles`.
            **options: Those of `from_roles`. `skillbook` is required; create the runner with the same one.

        Raises:
            TypeError: The skillbook is missing.
        """
        cls._check_options("build_steps", options)
        if options.get("skillbook") is None:
            raise TypeError(f"{cls.__name__}.build_steps() missing 1 required keyword-only argument: 'skillbook'")
        steps, _, _ = cls._steps(args, **options)
        return steps

    @classmethod
    def from_roles(cls, *args: Any, **options: Any) -> Self:
        """Create a runner from two roles; the framework's agent is the third.

        Args:
            *args: The arguments of the execute step, such as the agent to run.
            **options: `reflector` and `skill_manager`, which are required; skillbook or skillbook_path, dedup_manager
                or dedup_config, dedup_interval, checkpoint_dir, checkpoint_interval, extra_steps, see
                `LearningSettings`; `check_key` (True), whether the first run begins with one short request to the
                reflector's model (at most 16 tokens), so that a refused key raises an error before the framework's
                agent has cost anything; all others are passed to the execute step.

        Raises:
            ValueError: Two options exclude each other.
            TypeError: A role is missing, or the execute step does not take one of the arguments.
        """
        cls._check_options("from_roles", options, ("check_key",))
        check_key = options.pop("check_key", True)
        runner = cls._composed(*cls._steps(args, **options))
        client = getattr(options["reflector"], "llm", None)
        runner._unchecked = client if check_key and cls._has_key(client) else None
        return runner

    @classmethod
    def from_model(cls, *args: Any, **options: Any) -> Self:
        """Create a runner whose two roles use one model.

        Args:
            *args: Those of `from_roles`.
            **options: `ace_model` (by default `gpt-4o-mini`), the model that learns; `ace_max_tokens` (2048), the
                maximum length of its answers; `api_base`, `api_key` and `temperature` of its client; `ace_llm`, a
                client to use instead. All others are those of `from_roles`.

        Raises:
            TypeError: An option is unknown, or one is for a client although `ace_llm` is given.
        """
        cls._check_options("from_model", options, ("check_key", *_CLIENT_OPTIONS, *CLIENT_SETTINGS))
        for_client = {name: options.pop(name) for name in _CLIENT_OPTIONS if name in options}
        settings = {name: options.pop(name) for name in CLIENT_SETTINGS if name in options}
        return cls.from_client(learning_client(cls, **for_client, settings=settings), *args, **options)

    @classmethod
    def from_client(cls, client: AnyLLMClient, /, *args: Any, **options: Any) -> Self:
        """Create a runner whose roles use one client: two that learn, and an agent that proves what is learned.

        Args:
            client: The client of the roles.
            *args: Those of `from_roles`.
            **options: Those of `from_roles`.
        """
        cls._check_options("from_client", options, ("check_key",))
        from ace.roles import agent_for, reflector_for, skill_manager_for

        options.setdefault("proof_agent", agent_for(client))
        return cls.from_roles(
            *args, reflector=reflector_for(client), skill_manager=skill_manager_for(client), **options
        )

    @checked_arguments(RunOptions)
    def run(
        self,
        tasks: Iterable[Any],
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Run all tasks, and learn from them, in every epoch.

        Args:
            tasks: What the execute step takes, such as texts or samples; a sequence if there are several epochs.
            epochs: The number of passes over the tasks.
            **options: Those of every run, see `RunOptions`: wait, workers, max_in_flight, on_sample_done,
                on_sample_end, cancel_token, run_id, resume, once, shuffle, reflection_window, max_cost,
                fail_fast, max_consecutive_failures.

        Returns:
            The results of all epochs, in input order. A task that could not be run has `error`; see also `failures`.

        Raises:
            TypeError: `tasks` is not an iterable of tasks.
            ValueError: An argument is invalid, a task is None, or no run of this name exists to be resumed.
        """
        return self._run(tasks, epochs=epochs, **options)

    @checked_arguments(RunOptions)
    async def arun(
        self,
        tasks: Iterable[Any],
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Like `run`, for asynchronous code; see `ACERunner.arun`.

        Args:
            tasks: The tasks; a sequence if there are several epochs.
            epochs: The number of passes over the tasks.
            **options: Those of `run`.
        """
        if own_twin(self, "run") is None:  # a subclass has a `run` of its own
            return await self._run_in_thread(tasks, epochs, **options)
        return await self._arun(tasks, epochs=epochs, **options)

    @classmethod
    def _has_key(cls, client: object) -> bool:
        """Whether a client has a key that its server may refuse; a local model has none, and is slow to answer."""
        from ace.providers import LiteLLMClient

        return isinstance(client, LiteLLMClient)

    def _run(self, items: Iterable[Any], *, epochs: int, **kwargs: Any) -> list[SampleResult[ACEStepContext]]:
        client, self._unchecked = self._unchecked, None
        if client is not None:
            try:
                client.complete(_ASKED, max_tokens=_MOST_TOKENS)
            except LLMCallError as error:
                self._raise_if_refused(error, client)
        return super()._run(items, epochs=epochs, **kwargs)

    async def _arun(self, items: Iterable[Any], *, epochs: int, **kwargs: Any) -> list[SampleResult[ACEStepContext]]:
        client, self._unchecked = self._unchecked, None
        if client is not None:
            try:
                await client.acomplete(_ASKED, max_tokens=_MOST_TOKENS)
            except LLMCallError as error:
                self._raise_if_refused(error, client)
        return await super()._arun(items, epochs=epochs, **kwargs)

    def _raise_if_refused(self, error: LLMCallError, client: object) -> None:
        """Raise the error if the key is refused; ignore others, such as a lost request, which the run will report."""
        if isinstance(error, LLMAuthenticationError):
            self._unchecked = client
            raise error
        _logger.debug("The check of the learner's key was not answered: %s", error)

    def _default_in_flight(self, options: RunSettings) -> int | None:
        return self._foreground_workers(options) + self.tasks_ahead

    @classmethod
    def _step_options(cls) -> frozenset[str] | None:
        """Return the names of the arguments of the execute step; None if it takes any."""
        parameters = inspect.signature(cls.execute_step).parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return None
        return frozenset(parameters)

    @classmethod
    def _check_options(cls, method: str, options: Mapping[str, Any], more: Iterable[str] = ()) -> None:
        """Raise a `TypeError` about the called method if neither the runner nor the execute step takes an option."""
        of_step = cls._step_options()
        if of_step is None:
            return  # the step itself raises the error for an unknown option
        of_runner = {parameter.name for parameter in inspect.signature(cls.from_roles).parameters.values()} - {
            "args",
            "options",
        }
        known = {*LearningOptions.__annotations__, "reflector", "skill_manager", *of_runner, *of_step, *more}
        check_keywords(f"{cls.__name__}.{method}", options, known)

    @classmethod
    def _steps(
        cls, args: tuple[Any, ...], *, reflector: ReflectorLike, skill_manager: SkillManagerLike, **options: Any
    ) -> tuple[list[StepProtocol[ACEStepContext]], Skillbook, LearningSettings]:
        own = LearningOptions.__annotations__
        settings = LearningSettings(**{name: value for name, value in options.items() if name in own})
        execute = cls.execute_step(*args, **{name: value for name, value in options.items() if name not in own})
        skillbook = settings.book()
        return [execute, cls.to_trace(), *settings.tail(reflector, skill_manager, skillbook)], skillbook, settings
