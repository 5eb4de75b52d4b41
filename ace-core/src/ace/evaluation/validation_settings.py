"""When a skillbook is validated in a training, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from ace.arguments import checked_class

__all__ = ["ValidationSettings"]


@checked_class
@dataclass(frozen=True, slots=True)
class ValidationSettings:
    """When a skillbook is validated, and what follows from it.

    Raises:
        ValueError: A setting is out of range.
    """

    interval: int = 10
    """The number of samples between two validations; the end of the run is always validated."""
    gate: bool = False
    """Whether what was learned since the last validation is rolled back if the score fell. It needs a skillbook with
    history that nothing else writes meanwhile."""
    patience: int | None = None
    """How many validations without a better score end the training; None never ends it."""
    repeats: int = 1
    """How often each validation sample is answered."""

    def __post_init__(self) -> None:
        for name, value in (("interval", self.interval), ("patience", self.patience), ("repeats", self.repeats)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
