"""A bound on the number of model answers that one task may cost.

A role opens a budget around its work; clients that retry count each answer against it. So the
retries of a role and of its client share one total and do not multiply.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["AnswerBudget", "answer_budget", "current_answer_budget"]


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


_current: ContextVar[AnswerBudget | None] = ContextVar("ace_answer_budget", default=None)


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
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


def current_answer_budget() -> AnswerBudget | None:
    """Return the budget that is open around this code, or None."""
    return _current.get()
