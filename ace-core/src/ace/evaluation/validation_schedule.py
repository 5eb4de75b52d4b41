"""Validates a skillbook while it learns: keeps the best state, rolls back what made it worse, decides when to stop."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ace._internal.arguments import checked_class, whole_number
from ace._internal.atomic_file import append_line
from ace.evaluation.call_costs import LearningCosts, Spent
from ace.evaluation.evaluation import Evaluation, UnfinishedEvaluationError
from ace.evaluation.evaluator import read_kept_lines
from ace.evaluation.statistics import Interval
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.context import ACESample
    from ace.evaluation.evaluator import Evaluator
    from ace.pipeline import CancellationToken

__all__ = ["TrainingLog", "ValidationPoint", "ValidationSchedule", "ValidationSettings"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPoint:
    """One validation of a skillbook during training."""

    samples: int
    """The number of samples before it, over all epochs; 0 at the beginning."""
    score: Interval
    """The accuracy on the validation samples."""
    score_before: float | None
    """The accuracy of the previous kept state; None at the beginning."""
    is_kept: bool
    """Whether the state was kept; if not, the gate has rolled it back."""
    version: int | None
    """The version of the store that was validated; None without a store."""
    skills: Mapping[str, str]
    """The texts of the active skills that were validated, by id."""
    input_tokens: int = 0
    """The tokens of the prompts of the validation."""
    output_tokens: int = 0
    """The tokens of the answers of the validation."""
    cost: float | None = 0.0
    """US dollars that the validation cost; None if a price is not known."""
    learning: Spent = field(default_factory=Spent)
    """What learning has cost since the previous validation."""

    def to_dict(self) -> dict[str, Any]:
        """Return the point as JSON values."""
        return {**asdict(self), "skills": dict(self.skills)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ValidationPoint:
        """Create one from the values of `to_dict`.

        Raises:
            ValueError: `data` is something else.
        """
        try:
            own = {"score": Interval(**data["score"]), "learning": Spent(**data.get("learning", {}))}
            return cls(**{**data, **own})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a validation point: {error}") from error


@final
class TrainingLog:
    """A file of JSON lines, each with the name of a run and a validation point.

    Args:
        path: The file; None keeps nothing.

    Raises:
        ValueError: A line is not a validation point, and is not just cut off by the end of a process; the message names
            the line.
    """

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._points: list[tuple[str, ValidationPoint]] = []
        if self._path is not None:
            self._points = read_kept_lines(
                self._path,
                "run",
                lambda run, data: (run, ValidationPoint.from_dict(data)),
                what="point of a training",
                instead="give another log_path",
            )

    @property
    def last_run(self) -> str | None:
        """The name of the run of the last point; None without points."""
        return self._points[-1][0] if self._points else None

    @property
    def runs(self) -> list[str]:
        """The names of all runs, in the order of their first points."""
        return list(dict.fromkeys(run for run, _ in self._points))

    def points_of(self, run_id: str) -> list[ValidationPoint]:
        """Return the points of a run."""
        return [point for run, point in self._points if run == run_id]

    def keep(self, run_id: str, point: ValidationPoint) -> None:
        """Keep a point of a run; it is on the disk when this returns."""
        if self._path is not None:
            append_line(self._path, json.dumps({"run": run_id, **point.to_dict()}))
        self._points.append((run_id, point))


@checked_class
@dataclass(frozen=True, slots=True)
class ValidationSettings:
    """When a skillbook is validated, and the consequences.

    Raises:
        ValueError: A setting is out of range.
    """

    interval: int = 10
    """The number of samples between two validations; the end of the run is always validated."""
    gate: bool = False
    """Whether to roll back what was learned since the last validation if the score has fallen. It requires a skillbook
    with history that nothing else changes during the training."""
    patience: int | None = None
    """The training ends after this many validations without a better score; None never ends it early."""
    repeats: int = 1
    """How often each validation sample is answered."""

    def __post_init__(self) -> None:
        for name, value in (("interval", self.interval), ("patience", self.patience), ("repeats", self.repeats)):
            if value is not None:
                whole_number(name, value)


@final
class ValidationSchedule:
    """The validations of one training run, from its beginning to its end.

    The best state is the one with the highest score; of equal ones the last.

    Args:
        evaluator: Answers and judges the validation samples.
        samples: The validation samples; none of them may be learned from.
        skillbook: The book that learns.
        settings: When to validate, and the consequences.
        run_id: The name of the run.
        log: Keeps the points. If it already has points of this run, the run is resumed.
        save_path: A JSON file that always contains the best state so far, merged with what others have written into it;
            not for a book in a store, where the best state is a version.
        on_point: Called with each new point.

    Raises:
        ValueError: `samples` is empty, or the gate is on and the book has no history.
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
            raise ValueError("samples is empty; pass at least one sample to validate on")
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
        """The validations so far."""
        return tuple(self._points)

    @property
    def best(self) -> ValidationPoint | None:
        """The best point so far."""
        kept = [point for point in self._points if point.is_kept]
        return max(kept, key=lambda point: (point.score.value, point.samples), default=None)

    @property
    def is_exhausted(self) -> bool:
        """Whether the last `patience` validations found no better state, so that the training should end."""
        if self.settings.patience is None:
            return False
        best, since = float("-inf"), 0
        for point in self._points:
            is_better = point.is_kept and point.score.value > best
            best, since = (point.score.value, 0) if is_better else (best, since + 1)
        return since >= self.settings.patience

    def start(self, *, max_cost: float | None = None, cancel_token: CancellationToken | None = None) -> float:
        """Validate the book as it is, before anything is learned. A resumed schedule has done so already.

        Args:
            max_cost: The maximum cost, in US dollars.
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
        """Validate the book as it is now, and keep or reject its state.

        Args:
            samples: The number of samples processed so far.
            cancel_token: Stops it.

        Returns:
            The new point; None if it was stopped, or if this state has been validated before.
        """
        if not self._points:
            raise RuntimeError("call start() first")
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
        """Return the best state: a book in a store itself, rolled back to it; otherwise a copy.

        Raises:
            UnfinishedEvaluationError: Nothing was validated.
        """
        best = self.best
        if best is None:
            raise UnfinishedEvaluationError(
                "nothing was validated, so no state of the skillbook is known to be the best"
            )
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
        """Record a validation of an unchanged book, which has the same score and costs nothing."""
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
        """Roll back the state that the last validation rejected. It is logged before, so a kill loses nothing."""
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
