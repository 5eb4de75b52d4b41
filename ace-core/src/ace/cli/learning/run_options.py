"""The options that `ace learn` and `ace train` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from cyclopts import Parameter

from ace.cli.options import Flag, check_from_one
from ace.cli.settings import SettingValue
from ace.skill import Provenance
from ace.steps.copy_guard import GuardedKind

__all__ = ["RunOptions"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of the run."""

    epochs: int | None = None
    """The number of passes over the inputs. [env: ACE_EPOCHS] [default: 1]"""
    shuffle: int | None = None
    """Process the inputs in a random order of each epoch, determined by this seed."""
    workers: int | None = None
    """The number of inputs to process at once. [env: ACE_WORKERS]"""
    lag: int | None = None
    """How many earlier inputs may still be unlearned when an input starts; 0 makes runs exactly repeatable.
    [env: ACE_LAG]"""
    limit: int | None = None
    """Process at most this many inputs."""
    max_cost: float | None = None
    """Stop starting new inputs once the run has cost this much (USD). [env: ACE_MAX_COST]"""
    fail_fast: Annotated[bool, Flag] = False
    """Stop at the first input that fails."""
    allow: Annotated[list[GuardedKind], Parameter(negative="", show_default=False)] = field(default_factory=list)
    """Send, store and learn what is otherwise replaced or rejected: personal data or one class of it, secrets, copies
    of the right answer or of a prompt. [env: ACE_ALLOW]"""
    provenance: Annotated[Provenance | None, Parameter(show_default=False)] = None
    """What to keep of a trace besides its skills: full, or ids only, which keeps its name but none of its text, so no
    skill has cases. [env: ACE_PROVENANCE] [default: full]"""
    no_merge: Annotated[bool, Flag] = False
    """Do not merge duplicate skills."""
    resume: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs: retry what failed and do what is left, without paying twice."""
    give_up: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs, but do not retry what failed."""
    dry_run: Annotated[bool, Flag] = False
    """Write nothing; the report is the same."""

    def flags(self) -> dict[str, SettingValue]:
        """Return the values that can also be settings, by name.

        Raises:
            UsageError: Another option is out of range.
        """
        check_from_one({"--limit": self.limit})
        return {
            "epochs": self.epochs,
            "workers": self.workers,
            "lag": self.lag,
            "max_cost": self.max_cost,
            "allow": ",".join(self.allow) or None,
            "provenance": self.provenance,
        }
