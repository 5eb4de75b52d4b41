"""What validation found in the course of a training, and the file that keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from ace.durable_file import append_line
from ace.evaluation.call_costs import Spent
from ace.evaluation.kept_lines import read_kept_lines
from ace.evaluation.statistics import Interval

__all__ = ["TrainingLog", "ValidationPoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPoint:
    """One validation of a skillbook that learns."""

    samples: int
    """The number of samples before it, over all epochs; 0 is the beginning."""
    score: Interval
    """The accuracy on the validation samples."""
    score_before: float | None
    """The accuracy of the state that this one came from; None at the beginning."""
    is_kept: bool
    """Whether the state was kept; if not, the gate has taken it back."""
    version: int | None
    """The version of the store that was validated; None without one."""
    skills: Mapping[str, str]
    """The active skills that were validated: their texts by their ids."""
    input_tokens: int = 0
    """What the validation took."""
    output_tokens: int = 0
    """What the validation took."""
    cost: float | None = 0.0
    """US dollars that the validation took; None where a price is not known."""
    learning: Spent = field(default_factory=Spent)
    """What learning took since the validation before."""

    def to_dict(self) -> dict[str, Any]:
        """Return the point as JSON values."""
        return {**asdict(self), "skills": dict(self.skills)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ValidationPoint:
        """Read what `to_dict` made.

        Raises:
            ValueError: It is something else.
        """
        try:
            own = {"score": Interval(**data["score"]), "learning": Spent(**data.get("learning", {}))}
            return cls(**{**data, **own})
        except (TypeError, KeyError) as error:
            raise ValueError(f"this is not a point of a validation: {error}") from error


@final
class TrainingLog:
    """A file of JSON lines: a run and a point each.

    Args:
        path: The file; None keeps nothing.

    Raises:
        ValueError: A line is not a validation point, and was not cut off by the end of a process either; the text names
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
        """The run of the last point, if there is one."""
        return self._points[-1][0] if self._points else None

    def points_of(self, run_id: str) -> list[ValidationPoint]:
        """Return the points of a run.

        Args:
            run_id: Its name.
        """
        return [point for run, point in self._points if run == run_id]

    def keep(self, run_id: str, point: ValidationPoint) -> None:
        """Keep a point; it is on the disk when this returns.

        Args:
            run_id: The run.
            point: The point.
        """
        if self._path is not None:
            append_line(self._path, json.dumps({"run": run_id, **point.to_dict()}))
        self._points.append((run_id, point))
