"""What several evaluations may cost together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

from ace.pipeline import CancellationToken
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.context import ACESample
    from ace.evaluation.evaluation import Evaluation
    from ace.evaluation.evaluator import Evaluator
    from ace.evaluation.judged import JudgedAnswer

__all__ = ["Budget"]


@final
class Budget:
    """Has samples answered as long as there is money left.

    Args:
        max_cost: US dollars for all evaluations together; None sets no limit.
        cancel_token: Stops them.
    """

    def __init__(self, max_cost: float | None = None, cancel_token: CancellationToken | None = None) -> None:
        self.left = max_cost
        self.token = CancellationToken() if cancel_token is None else cancel_token

    def evaluate(
        self,
        evaluator: Evaluator,
        samples: Sequence[ACESample],
        skillbook: Skillbook | None,
        *,
        name: str,
        repeats: int = 1,
        on_answer: Callable[[JudgedAnswer], None] | None = None,
    ) -> Evaluation:
        """Return an evaluation that has all its answers. The arguments are those of `Evaluator.evaluate`.

        Raises:
            UnfinishedEvaluationError: It was stopped before all answers were there.
        """
        if self.left is not None and self.left <= 0:
            self.token.cancel("max_cost")  # what the answer file has is free all the same
        evaluation = evaluator.evaluate(
            samples,
            skillbook,
            name=name,
            repeats=repeats,
            max_cost=None if self.token.is_cancelled else self.left,
            cancel_token=self.token,
            on_answer=on_answer,
        )
        if self.left is not None:
            self.left -= evaluation.paid
        evaluation.check_complete()
        return evaluation
