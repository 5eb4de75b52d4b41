"""Validates a skillbook while it learns: keeps the best state, rolls back what made it worse, decides when to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ace.evaluation.call_costs import LearningCosts
from ace.evaluation.evaluation import Evaluation, UnfinishedEvaluationError
from ace.evaluation.training_log import TrainingLog, ValidationPoint
from ace.evaluation.validation_settings import ValidationSettings
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.context import ACESample
    from ace.evaluation.evaluator import Evaluator
    from ace.pipeline import CancellationToken

__all__ = ["ValidationCourse"]

logger = logging.getLogger(__name__)


@final
class ValidationCourse:
    """The validations of one training run, from its beginning to its end.

    The best state is the one with the highest score; of equal ones the last.

    Args:
        evaluator: Who answers and judges the validation samples.
        samples: The validation samples; none of them may be learned from.
        skillbook: The book that learns.
        settings: When to validate, and what follows.
        run_id: The name of the run.
        log: Keeps the points. Those that it has of this run are taken over.
        save_path: A JSON file that always holds the best state so far, with what others have written into it;
            not for a book in a store, where the best state is a version.
        on_point: Called with each new point.

    Raises:
        ValueError: There are no samples, or a gate is asked for and the book keeps no history.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        samples: Sequence[ACESample],
        skillbook: Skillbook,
        settings: ValidationSettings | None = None,
        *,
        run_id: str = "training",
        log: TrainingLog | None = None,
        save_path: str | Path | None = None,
        on_point: Callable[[ValidationPoint], None] | None = None,
    ) -> None:
        self.settings = ValidationSettings() if settings is None else settings
        if not samples:
            raise ValueError("there is no sample to validate on")
        if self.settings.gate and skillbook.store is None:
            raise ValueError(
                "the gate rolls back what made the score fall, so it needs a skillbook with history; "
                "open one with a path that ends in .db"
            )
        self.skillbook = skillbook
        self._evaluator = evaluator
        self._samples = samples
        self._run_id = run_id
        self._log = TrainingLog(None) if log is None else log
        self._save_path = save_path
        self._on_point = on_point
        self._points = self._log.points_of(run_id)
        self.learning_costs = LearningCosts(run_id)
        self._best_state: dict[str, Any] = skillbook.to_dict()

    @property
    def points(self) -> tuple[ValidationPoint, ...]:
        """What was found so far."""
        return tuple(self._points)

    @property
    def best(self) -> ValidationPoint | None:
        """The best point so far."""
        kept = [point for point in self._points if point.is_kept]
        return max(kept, key=lambda point: (point.score.value, point.samples), default=None)

    @property
    def is_exhausted(self) -> bool:
        """Whether the last validations brought nothing better, so that the training shall end."""
        if self.settings.patience is None:
            return False
        best, since = float("-inf"), 0
        for point in self._points:
            is_better = point.is_kept and point.score.value > best
            best, since = (point.score.value, 0) if is_better else (best, since + 1)
        return since >= self.settings.patience

    def start(self, *, max_cost: float | None = None, cancel_token: CancellationToken | None = None) -> float:
        """Validate the book as it is, before anything is learned. A resumed course has done so already.

        Args:
            max_cost: The most that this may cost, in US dollars.
            cancel_token: Stops it.

        Returns:
            The US dollars that were paid for it just now.

        Raises:
            UnfinishedEvaluationError: It was stopped before all answers were there.
        """
        if self._points:
            self._take_back_if_refused()
            return 0.0
        evaluation = self._evaluate(max_cost, cancel_token)
        evaluation.check_complete()
        self._add(0, evaluation, score_before=None, is_kept=True)
        return evaluation.paid

    def validate(self, samples: int, *, cancel_token: CancellationToken | None = None) -> ValidationPoint | None:
        """Validate the book as it is now, and do what follows from the score.

        Args:
            samples: After how many samples this is.
            cancel_token: Stops it.

        Returns:
            What was found; None if it was stopped, or if this was validated before.
        """
        if not self._points:
            raise RuntimeError("a validation course begins with start()")
        if samples <= self._points[-1].samples:
            return None
        if self.skillbook.has_uncommitted_changes:
            self.skillbook.commit(author="validation")
        before = next(point for point in reversed(self._points) if point.is_kept)
        if _texts(self.skillbook) == before.skills:
            return self._repeat(samples, before)
        evaluation = self._evaluate(None, cancel_token)
        if not evaluation.is_complete:
            return None
        score = evaluation.accuracy
        is_kept = not self.settings.gate or score >= before.score.value
        return self._add(samples, evaluation, score_before=before.score.value, is_kept=is_kept)

    def finish(self) -> Skillbook:
        """Return the best state: of a book in a store the book itself, gone back to it; else a copy.

        Raises:
            UnfinishedEvaluationError: Nothing was validated.
        """
        best = self.best
        if best is None:
            raise UnfinishedEvaluationError("nothing was validated, so no state of the skillbook is the best")
        if self.skillbook.store is None:
            return Skillbook.from_dict(self._best_state)
        if _texts(self.skillbook) != best.skills and best.version is not None:
            author = f"best by validation: {best.score.value:.4f} after {best.samples} samples"
            self.skillbook.rollback(best.version, author=author)
        return self.skillbook

    def _evaluate(self, max_cost: float | None, cancel_token: CancellationToken | None) -> Evaluation:
        return self._evaluator.evaluate(
            self._samples,
            self.skillbook,
            name="validation",
            repeats=self.settings.repeats,
            max_cost=max_cost,
            cancel_token=cancel_token,
        )

    def _add(
        self, samples: int, evaluation: Evaluation, *, score_before: float | None, is_kept: bool
    ) -> ValidationPoint:
        point = ValidationPoint(
            samples=samples,
            score=evaluation.interval(),
            score_before=score_before,
            is_kept=is_kept,
            version=self.skillbook.version,
            skills=_texts(self.skillbook),
            input_tokens=sum(answer.input_tokens for answer in evaluation.answers),
            output_tokens=sum(answer.output_tokens for answer in evaluation.answers),
            cost=evaluation.cost,
            learning=self.learning_costs.take(),
        )
        return self._note(point)

    def _repeat(self, samples: int, before: ValidationPoint) -> ValidationPoint:
        """Note a validation of what was validated before: its score stays, and costs nothing."""
        return self._note(
            ValidationPoint(
                samples=samples,
                score=before.score,
                score_before=before.score.value,
                is_kept=True,
                version=self.skillbook.version,
                skills=before.skills,
                learning=self.learning_costs.take(),
            )
        )

    def _note(self, point: ValidationPoint) -> ValidationPoint:
        self._log.keep(self._run_id, point)
        self._points.append(point)
        self._take_back_if_refused()
        if self.best is point:
            self._best_state = self.skillbook.to_dict()
            if self._save_path is not None and self.skillbook.store is None:
                self.skillbook.save_to_file(self._save_path, merge=True)
        if self._on_point is not None:
            self._on_point(point)
        return point

    def _take_back_if_refused(self) -> None:
        """Roll back what the last validation refused. It was noted first, so that a kill in between costs nothing."""
        last = self._points[-1]
        if last.is_kept or _texts(self.skillbook) != last.skills:
            return
        before = next(point for point in reversed(self._points) if point.is_kept)
        assert before.version is not None
        reason = f"gate: validation fell from {before.score.value:.4f} to {last.score.value:.4f}"
        self.skillbook.rollback(before.version, author=reason)
        logger.info("What was learned since version %d was rolled back: %s", before.version, reason)


def _texts(book: Skillbook) -> dict[str, str]:
    return {skill.id: skill.content for skill in book.skills()}
