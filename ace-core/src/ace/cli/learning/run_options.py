"""The options that `ace learn` and `ace train` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, TypedDict

from cyclopts import Parameter

from ace.cli.options import Flag, check_from_one
from ace.cli.settings import SettingValue
from ace.skill import Provenance
from ace.steps.copy_guard import GuardedKind
from ace.steps.prove import Unproven
from ace.steps.tail import Prove

__all__ = ["ProofOptions", "RunOptions"]


class ProofOptions(TypedDict):
    """What a runner is told about proofs; see `LearningSettings`."""

    prove: Prove
    unproven: Unproven
    final_test: bool


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
    prove: Annotated[bool | None, Parameter(negative="--no-prove", show_default=False)] = None
    """Try each new skill on the correction that taught it, before it is kept. On by default, except with
    --provenance ids."""
    unproven: Annotated[Unproven, Parameter(show_default=False)] = "keep"
    """What to do with a skill that fails the correction that taught it, whatever its text: keep or drop.
    [default: keep]"""
    no_final_test: Annotated[bool, Flag] = False
    """Do not ask the corrections of this run once more at its end, where the skills shown with them have changed."""
    no_merge: Annotated[bool, Flag] = False
    """Do not merge duplicate skills."""
    resume: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs: retry what failed and do what is left, without paying twice."""
    give_up: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs, but do not retry what failed."""
    dry_run: Annotated[bool, Flag] = False
    """Write nothing; the report is the same."""

    @property
    def proofs(self) -> ProofOptions:
        """What the runner is told about proofs."""
        return ProofOptions(
            prove="auto" if self.prove is None else self.prove,
            unproven=self.unproven,
            final_test=not self.no_final_test,
        )

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
