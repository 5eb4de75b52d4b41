"""`SubRunner`: a step that runs an inner pipeline in a loop, until it is done or reaches a limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Generic, TypeVar

from .cancellation import cancel_token_var
from .context import StepContext
from .errors import PipelineCancelled, PipelineError
from .pipeline import Pipeline
from .segment import Position

C = TypeVar("C", bound=StepContext)


class SubRunner(ABC, Generic[C]):
    """A step that runs an inner pipeline in a loop: retry with critique, search, a conversation with a model.

    A subclass builds the inner pipeline and says when the loop is done; the other methods have defaults for a loop over
    the context of the step itself. Each call has a pipeline and contexts of its own, so several threads can use one
    object at the same time, as long as the subclass keeps the state of a loop in its context. If the outer run was
    cancelled, the loop ends before the next turn.

    Args:
        max_iterations: The maximum number of turns; at least 1.

    Raises:
        TypeError: `max_iterations` is not a whole number.
        ValueError: `max_iterations` is below 1.

    Example:
        >>> class Halve:
        ...     requires = provides = {"sample"}
        ...     def __call__(self, ctx):
        ...         return ctx.replace(sample=ctx.sample / 2)
        >>> class HalveUntilSmall(SubRunner[StepContext]):
        ...     requires = provides = {"sample"}
        ...     def _build_inner_pipeline(self, **kwargs):
        ...         return Pipeline([Halve()])
        ...     def _is_done(self, ctx):
        ...         return ctx.sample < 1
        >>> HalveUntilSmall(max_iterations=5)(StepContext(sample=12)).sample
        0.75
    """

    requires: Collection[str] = frozenset()
    provides: Collection[str] = frozenset()

    def __init__(self, *, max_iterations: int) -> None:
        if isinstance(max_iterations, bool) or not isinstance(max_iterations, int):
            raise TypeError(f"max_iterations must be a whole number, got {max_iterations!r}")
        if max_iterations < 1:
            raise ValueError(f"max_iterations must be at least 1, got {max_iterations}")
        self.max_iterations = max_iterations

    def __call__(self, ctx: Any) -> Any:
        """Run the loop for one context of the outer pipeline, as `run_loop(ctx=ctx)`."""
        return self.run_loop(ctx=ctx)

    def run_loop(self, **kwargs: Any) -> Any:
        """Run turns until the loop is done or reaches its limit.

        Args:
            **kwargs: Passed to `_build_inner_pipeline`, `_build_initial_context` and `_on_timeout`.

        Returns:
            What `_extract_result` returns for the last context; at the limit, what `_on_timeout` returns.

        Raises:
            PipelineCancelled: The outer run was cancelled.
            Exception: What an inner step raised, with a note that names the step and the turn.
        """
        pipeline = self._build_inner_pipeline(**kwargs)
        ctx = self._build_initial_context(**kwargs)
        for iteration in range(1, self.max_iterations + 1):
            if iteration > 1:
                ctx = self._accumulate(ctx)
            self._check_cancelled(iteration)
            ctx = self._run_turn(pipeline, ctx, iteration)
            if self._is_done(ctx):
                return self._extract_result(ctx)
        return self._on_timeout(ctx, self.max_iterations, **kwargs)

    def _check_cancelled(self, iteration: int) -> None:
        token = cancel_token_var.get()
        if token is not None and token.is_cancelled:
            raise PipelineCancelled(f"the run was stopped before turn {iteration} of {type(self).__name__}")

    def _run_turn(self, pipeline: Pipeline[C], ctx: C, iteration: int) -> C:
        position = Position()
        try:
            return pipeline.call_at(ctx, position)
        except Exception as error:
            step = f"step {position.step_name}" if position.step_name else "the inner pipeline"
            error.add_note(f"raised by {step} in turn {iteration} of {type(self).__name__}")
            raise

    @abstractmethod
    def _build_inner_pipeline(self, **kwargs: Any) -> Pipeline[C]:
        """Return the pipeline of one turn. It is called once for each loop.

        Args:
            **kwargs: Those of `run_loop`.
        """

    def _build_initial_context(self, **kwargs: Any) -> C:
        """Return the context of the first turn; by default the argument `ctx` of `run_loop`.

        Args:
            **kwargs: Those of `run_loop`.
        """
        ctx: C = kwargs["ctx"]
        return ctx

    @abstractmethod
    def _is_done(self, ctx: C) -> bool:
        """Return whether the loop is done.

        Args:
            ctx: What the last turn returned.
        """

    def _extract_result(self, ctx: C) -> Any:
        """Return the result of a loop that is done; by default its last context.

        Args:
            ctx: What the last turn returned.
        """
        return ctx

    def _accumulate(self, ctx: C) -> C:
        """Return the context for the next turn; by default what the last turn returned.

        Args:
            ctx: What the last turn returned.
        """
        return ctx

    def _on_timeout(self, last_ctx: C, iteration: int, **kwargs: Any) -> Any:
        """Return the result of a loop that has reached its limit; by default it is an error.

        Args:
            last_ctx: What the last turn returned.
            iteration: The number of turns.
            **kwargs: Those of `run_loop`.

        Raises:
            PipelineError: The default.
        """
        turns = "1 turn" if iteration == 1 else f"{iteration} turns"
        raise PipelineError(f"{type(self).__name__} is not done after {turns}")
