"""The error of a run that was stopped because its skillbook could not be written."""

from __future__ import annotations

from ace.skillbook.errors import SkillbookError

__all__ = ["SkillbookNotWrittenError"]


class SkillbookNotWrittenError(SkillbookError):
    """The skillbook of a run could not be written, so the run was stopped: more would be paid for, and lost.

    Attributes:
        reason: What happened.
        run_id: The name of the run.
        learned: How many samples this call of the run has learned.
        is_resumable: Whether what they taught is in a store, and the run can be resumed. If not, it is in memory.

    Example:
        >>> print(SkillbookNotWrittenError("the disk is full", run_id="r", learned=3, is_resumable=False))
        the run was stopped, since its skillbook cannot be written: the disk is full. What was learned is in memory; \
save it to another path with save(path)
    """

    def __init__(self, reason: str, *, run_id: str, learned: int, is_resumable: bool) -> None:
        self.reason = reason
        self.run_id = run_id
        self.learned = learned
        self.is_resumable = is_resumable
        if is_resumable:
            samples = "1 sample" if learned == 1 else f"{learned} samples"
            remedy = (
                f"What {samples} taught is kept; when the problem is fixed, "
                f"resume with run(..., run_id={run_id!r}, resume=True)"
            )
        else:
            remedy = "What was learned is in memory; save it to another path with save(path)"
        super().__init__(f"the run was stopped, since its skillbook cannot be written: {reason}. {remedy}")
