"""`ValidateStep`: validates a skillbook between the samples that it learns from."""

from __future__ import annotations

from ace.arguments import checked_class
from ace.context import ACEStepContext
from ace.evaluation.validation_course import ValidationCourse
from ace.pipeline import CancellationToken, cancel_token_var

__all__ = ["ValidateStep"]


@checked_class
class ValidateStep:
    """Validates at intervals of samples, and at the end of the run. It comes last in a learning pipeline.

    It is in the lane of the steps that write, so nothing is learned while it validates. When the course is
    exhausted, it cancels the run.

    Args:
        course: The validations of the run.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, course: ValidationCourse) -> None:
        self.course = course
        self.lane_key = course.skillbook

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Validate if it is time; the context stays as it is."""
        token = cancel_token_var.get()
        is_going = token is None or not token.is_cancelled
        if ctx.global_sample_index % self.course.settings.interval == 0 and is_going:
            self._validate(ctx.global_sample_index, token)
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Validate once more, so that an incomplete interval is validated too, and restore the best state.

        A run that is interrupted after this is complete: nothing of it remains to be done.
        """
        if not interrupted:
            self._validate(last_index, None)
            self.course.finish()

    def _validate(self, samples: int, token: CancellationToken | None) -> None:
        self.course.validate(samples, cancel_token=token)
        if self.course.is_exhausted and token is not None:
            token.cancel("early_stopping")
