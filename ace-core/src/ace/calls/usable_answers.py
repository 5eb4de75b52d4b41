"""The loop that asks a model until its answer can be used, within the budget of answers that is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from ace.calls.model_calls import AnswerBudget, answer_budget, current_answer_budget
from ace.protocols.errors import UnusableAnswerError

__all__ = ["AnswerProblem", "RejectedAnswer", "until_usable"]

Answer = TypeVar("Answer")
T = TypeVar("T")


class AnswerProblem(ValueError):
    """An answer cannot be used; the text tells a model what to do better."""


class RejectedAnswer(NamedTuple):
    """The last answer of a model that could not be used."""

    text: str
    """The raw text of the answer."""
    problem: str
    """What is wrong with it."""


async def until_usable(
    ask: Callable[[RejectedAnswer | None], Awaitable[Answer]],
    read: Callable[[Answer], T],
    *,
    text_of: Callable[[Answer], str],
    max_retries: int,
    role: str = "",
) -> T:
    """Ask until an answer can be used.

    Every answer counts against the answer budget that is open around this call, so it may stop before `max_retries` is
    used up. An answer that `ask` has already recorded in the budget, as clients do that ask again by themselves, is not
    counted twice.

    Args:
        ask: Asks the model, and is given the answer that was rejected before; None at first.
        read: Returns what an answer holds, or raises `AnswerProblem`.
        text_of: Returns the raw text of an answer.
        max_retries: How often to ask again; at least 0.
        role: The name of the role that asks, for the error.

    Returns:
        What `read` returned.

    Raises:
        UnusableAnswerError: No answer can be used; it carries all of them.

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
            rejected = RejectedAnswer(answers[-1], problem)


@contextmanager
def _open_budget(total: int) -> Iterator[AnswerBudget]:
    """Yield the budget that is open here, or open one."""
    outer = current_answer_budget()
    if outer is not None:
        yield outer
        return
    with answer_budget(total) as budget:
        yield budget
