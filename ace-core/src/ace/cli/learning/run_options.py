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
    """Shuffle the inputs in each epoch, with this random seed."""
    workers: int | None = None
    """The number of inputs to process concurrently. [env: ACE_WORKERS]"""
    lag: int | None = None
    """How many earlier inputs may not yet be learned from when an input starts; 0 makes runs reproducible.
    [env: ACE_LAG]"""
    limit: int | None = None
    """Process at most this many inputs."""
    max_cost: float | None = None
    """Stop starting new inputs once the run has cost this much (USD). [env: ACE_MAX_COST]"""
    fail_fast: Annotated[bool, Flag] = False
    """Stop at the first input that fails."""
    allow: Annotated[list[GuardedKind], Parameter(negative="", show_default=False)] = field(default_factory=list)
    """Turn off a safeguard: allow personal data (or one class of it), secrets, or copies of the correct answer or of a
    prompt, which are otherwise redacted or rejected. [env: ACE_ALLOW]"""
    provenance: Annotated[Provenance | None, Parameter(show_default=False)] = None
    """What to record about the source of a skill: full, or ids, which records the name of the trace but none of its
    text, so skills have no cases. [env: ACE_PROVENANCE] [default: full]"""
    prove: Annotated[bool | None, Parameter(negative="--no-prove", show_default=False)] = None
    """Test each new skill on the correction that it was learned from before keeping it. On by default, except with
    --provenance ids."""
    unproven: Annotated[Unproven, Parameter(show_default=False)] = "keep"
    """What to do with a skill that fails this test in every wording that was tried: keep or drop.
    [default: keep]"""
    no_final_test: Annotated[bool, Flag] = False
    """Skip the final test, which repeats the corrections of this run whose skills in the prompt have changed since."""
    no_merge: Annotated[bool, Flag] = False
    """Do not merge duplicate skills."""
    resume: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs: retry failed inputs and process the remaining ones, without paying
    twice."""
    give_up: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs, but do not retry failed inputs."""
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
