"""Measures skillbooks against no skills at all, until a signal or the cost stops it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ace.cli.console import note
from ace.cli.learning.progress import answers_shown
from ace.cli.signals import run_interruptibly
from ace.pipeline import CancellationToken

if TYPE_CHECKING:
    from collections.abc import Callable

    from ace.environments import Sample
    from ace.evaluation import (
        Budget,
        Evaluation,
        EvaluationReport,
        Evaluator,
        JudgedAnswer,
        LeftOut,
        ValidationPoint,
    )
    from ace.skillbook import Skillbook

    OnAnswer = Callable[[JudgedAnswer], None]

__all__ = ["Measurement", "MeasurementStopped", "until_stopped"]

T = TypeVar("T")

_WITHOUT: Final = "without skills"
_WITH: Final = "with skills"


class MeasurementStopped(Exception):
    """It ended before all answers were there.

    Args:
        reached: How far it came.
        reason: What stopped it: `max_cost` or `cancelled`.
    """

    def __init__(self, reached: str, reason: str) -> None:
        super().__init__(f"{reached} ({reason})")
        self.reason = reason


def until_stopped(
    work: Callable[[Budget, OnAnswer], T], max_cost: float | None, needed: int, *, quiet: bool = False
) -> T:
    """Make evaluations until a signal or the cost stops them, and show their progress.

    Args:
        work: Makes the evaluations with a budget, and calls a function with each answer.
        max_cost: The limit of cost, in US dollars.
        needed: How many answers the work takes.
        quiet: Whether to show no progress.

    Raises:
        MeasurementStopped: A signal came, or the limit of cost was reached.
    """
    from ace.evaluation import Budget, UnfinishedEvaluationError

    token = CancellationToken()

    def stop_softly() -> None:
        token.cancel()
        note("ace: stopping after the current answers; press Ctrl-C again to stop immediately")

    budget = Budget(max_cost, token)
    try:
        with answers_shown(needed, quiet=quiet) as on_answer:
            return run_interruptibly(lambda: work(budget, on_answer), on_first=stop_softly, on_second=lambda: None)
    except UnfinishedEvaluationError as error:
        raise MeasurementStopped(error.reached, token.reason) from error


@dataclass(frozen=True)
class Measurement:
    """What is measured, and how."""

    evaluator: Evaluator
    samples: Sequence[Sample]
    model: str
    repeats: int
    seed: int
    max_cost: float | None

    def answers_needed(self, books: Sequence[Skillbook], *, leave_one_out: bool) -> int:
        """Return how many answers a report takes, those from an answers file included.

        Args:
            books: The skillbooks.
            leave_one_out: Whether to measure each skill of the only book by omitting it.
        """
        rounds = 1 + len(books) + (len(books[0].skills()) if leave_one_out else 0)
        return rounds * self.repeats * len(self.samples)

    def report(
        self,
        books: Mapping[str, Skillbook],
        *,
        training: Sequence[ValidationPoint],
        leave_one_out: bool,
        quiet: bool = False,
    ) -> EvaluationReport:
        """Answer the samples without skills and with each book, and return the report.

        Args:
            books: The skillbooks by their names; of several, all answers together are set against none.
            training: The validations of the training of the only book.
            leave_one_out: Whether to measure each skill of the only book by omitting it.
            quiet: Whether to show no progress.

        Raises:
            MeasurementStopped: A signal came, or the limit of cost was reached.
        """
        needed = self.answers_needed(list(books.values()), leave_one_out=leave_one_out)
        return until_stopped(
            lambda budget, on_answer: self._report(budget, books, training, on_answer, leave_one_out=leave_one_out),
            self.max_cost,
            needed,
            quiet=quiet,
        )

    def _report(
        self,
        budget: Budget,
        books: Mapping[str, Skillbook],
        training: Sequence[ValidationPoint],
        on_answer: OnAnswer,
        *,
        leave_one_out: bool,
    ) -> EvaluationReport:
        from ace.evaluation import EvaluationReport, compare, pooled, skill_effects

        baseline = self._evaluated(budget, None, _WITHOUT, on_answer)
        with_skills = {name: self._evaluated(budget, book, f"with {name}", on_answer) for name, book in books.items()}
        [(name, book), *others] = books.items()
        if others:
            learned, title = (
                pooled(_WITH, list(with_skills.values())),
                f"Accuracy with and without {len(books)} skillbooks",
            )
        else:
            learned, title = with_skills[name], f"Accuracy with and without {Path(name).name}"
        return EvaluationReport(
            title=title,
            comparison=compare(baseline, learned, seed=self.seed),
            settings={
                "model": self.model,
                "skills": ", ".join(str(len(measured.skills())) for measured in books.values()),
                "samples": len(self.samples),
                "repeats": self.repeats,
                "seed": self.seed,
            },
            skills=() if others else skill_effects(learned, book, baseline),
            left_out=self._left_out(budget, book, learned, on_answer) if leave_one_out else (),
            training=training,
            runs={evaluation.name: evaluation.accuracy for evaluation in with_skills.values()} if others else {},
        )

    def _evaluated(self, budget: Budget, book: Skillbook | None, name: str, on_answer: OnAnswer) -> Evaluation:
        return budget.evaluate(self.evaluator, self.samples, book, name=name, repeats=self.repeats, on_answer=on_answer)

    def _left_out(
        self, budget: Budget, book: Skillbook, learned: Evaluation, on_answer: OnAnswer
    ) -> tuple[LeftOut, ...]:
        from ace.evaluation import leave_one_out

        return leave_one_out(
            self.evaluator,
            self.samples,
            book,
            whole=learned,
            repeats=self.repeats,
            seed=self.seed,
            max_cost=budget.left,
            cancel_token=budget.token,
            on_answer=on_answer,
        )
