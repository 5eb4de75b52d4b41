"""The options that `ace learn` and `ace train` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from cyclopts import Parameter

from ace.cli.options import Flag, check_from_one
from ace.cli.settings import SettingValue
from ace.steps.copy_guard import GuardedKind

__all__ = ["RunOptions"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How the run goes."""

    epochs: int | None = None
    """How often the inputs are gone through; once by default."""
    shuffle: int | None = None
    """Take the inputs in a random order, which this seed determines."""
    workers: int | None = None
    """How many inputs are worked on at once."""
    lag: int | None = None
    """How many earlier inputs may not be learned yet when one begins; 0 makes a run that can be repeated exactly."""
    limit: int | None = None
    """Take so many inputs at most."""
    max_cost: float | None = None
    """Begin nothing new when the run has cost so many US dollars."""
    fail_fast: Annotated[bool, Flag] = False
    """Stop at the first input that fails."""
    allow: Annotated[list[GuardedKind], Parameter(negative="")] = field(default_factory=list)
    """Learn skills that are otherwise left out, since they copy the right answer, or look like personal data or a
    secret."""
    no_merge: Annotated[bool, Flag] = False
    """Leave skills that say the same beside each other; otherwise they are merged."""
    resume: Annotated[bool, Flag] = False
    """Go on with the run over these inputs that was broken off."""
    dry_run: Annotated[bool, Flag] = False
    """Write nothing; the report is the same."""

    def flags(self) -> dict[str, SettingValue]:
        """Return the values that can also be settings, by name.

        Raises:
            UsageError: Another one makes no sense.
        """
        check_from_one({"--limit": self.limit})
        return {"epochs": self.epochs, "workers": self.workers, "lag": self.lag, "max_cost": self.max_cost}
