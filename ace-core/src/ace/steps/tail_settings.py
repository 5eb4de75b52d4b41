"""`TailSettings`: the declarations of the options of `learning_tail`, which its steps read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ace._internal.arguments import checked_class, file_path, with_method
from ace._options import check_options, inside_project, learning_option, option, refused
from ace.skill import PROVENANCES, Provenance, Unproven

if TYPE_CHECKING:
    from ace.insights import InsightLog
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.protocols.gate import GateLike
    from ace.protocols.llm import AnyLLMClient

__all__ = ["Prove", "TailSettings"]

Prove = bool | Literal["auto"]
"""Whether skills are proven; with `auto`, they are if the agent declares that it can be asked again."""

_WEAKENS = "it would add skills that your own settings would refuse"


def _project_provenance(name: str, provenance: str, _project: Path) -> str | None:
    if provenance == "ids":
        return None
    return (
        f"{name!r} in the file of a project may not be {provenance!r}, since it would keep texts that your own "
        "settings may not allow"
    )


@checked_class
@dataclass(frozen=True, kw_only=True)
class TailSettings:
    """The settings of the steps that `learning_tail` returns.

    Raises:
        TypeError: An object lacks the method that is called, or a path has the wrong type.
        ValueError: An option is out of range.

    Example:
        >>> TailSettings(reflections_per_call=17)
        Traceback (most recent call last):
        ...
        ValueError: reflections_per_call must be at most 16, got 17
    """

    dedup_manager: DeduplicationManagerLike | None = option(
        None,
        "Merges duplicate skills.",
        details="One without a skill manager that accepts one (`with_skill_manager`) asks that of the run about "
        "doubtful pairs. If skills are proven, one that accepts a prover (`with_prover`) proves its merges.",
        python_only=True,
    )
    dedup_interval: int = learning_option(
        10, "The number of inputs between two merges of duplicate skills.", least=1, unit="samples"
    )
    checkpoint_dir: str | Path | None = learning_option(
        None,
        "Write copies of the skillbook to this folder during the run.",
        group="Files",
        is_path=True,
        can_be_unset=True,
        project=inside_project("folder", "files are written there"),
    )
    checkpoint_interval: int = learning_option(
        10, "The number of inputs between two copies in checkpoint_dir.", group="Files", least=1, unit="samples"
    )
    max_adds: int | None = learning_option(
        50,
        "How many skills one answer of the skill manager may add; further ones are skipped and reported.",
        details="None sets no limit.",
        least=1,
        unit="skills",
    )
    max_operations: int | None = learning_option(
        None,
        "Apply at most this many changes per trace, not counting judgements of skills.",
        details="Further ones are skipped and reported. None sets no limit.",
        flags=("--max-deltas",),
        least=1,
        unit="operations",
        used="no limit; 3 with --task, --mode or --watch",
    )
    sections: Sequence[str] = learning_option(
        (),
        "The sections that new skills may be in; others are moved to the nearest of them.",
        details="See `ace.steps.listed_section`. If it is empty, any section is allowed.",
        is_list=True,
    )
    learn_without_truth: bool = learning_option(
        False,
        "Also add and change skills because of unverified answers; by default, these only lead to judgements of "
        "skills.",
        details="Unverified are the answers that an environment such as `HeuristicEnvironment` did not verify, and "
        "whose ground truth is not known.",
    )
    insights: InsightLog | None = option(
        None, "The log that records the insights of each trace and their status; see `InsightStep`.", python_only=True
    )
    min_confidence: float = learning_option(
        0.0,
        "Learn only insights with at least this confidence, from 0 to 1, which depends on how many tasks support them. "
        "Other insights stay pending in insights.jsonl.",
        details="Requires `insights`.",
        least=0,
        most=1,
        used="0; 0.8 with --task, --mode or --watch",
        project=refused(_WEAKENS),
    )
    gate: GateLike | None = option(
        None,
        "Decides whether the operations of a sample are applied, such as `ace.evaluation.CounterGate`; see `GateStep`. "
        "None applies all.",
        python_only=True,
    )
    artifacts: str | Path | None = option(
        None,
        "The directory for the folders of accepted versions, see `ArtifactStep`. Requires a skillbook in a store.",
        python_only=True,
    )
    artifact_skills: int = learning_option(
        2000,
        "The number of skills up to which an artifact contains the whole skillbook.",
        group="Files",
        least=0,
        unit="skills",
    )
    provenance: Provenance = learning_option(
        "full",
        "What to record about the source of a skill: full, or ids, which records the name of the trace but none of its "
        "text, so skills have no cases.",
        details="With `ids`, skills stay unproven, what models answered is deleted from a store when a run has ended "
        "and nothing of it has failed, and the record of a failed sample contains only the kind of its error.",
        group="Safeguards",
        choices=PROVENANCES,
        project=_project_provenance,
    )
    reflections_per_call: int = learning_option(
        1,
        "Request the changes for up to this many reflections in one call, to save calls and tokens.",
        details="See `UpdateStep`.",
        least=1,
        most=16,
    )
    prove: Prove = learning_option(
        "auto",
        "Test each new skill on the correction that it was learned from before keeping it.",
        details="With `auto`, skills are tested if the agent has an attribute `can_be_asked_again` that is True, as "
        "ours have: its answers have no side effects. See `ProveStep`.",
        group="Proof",
        kind=bool,
        used="on, except with --provenance ids",
        project=refused(_WEAKENS),
    )
    judge: AnyLLMClient | None = option(
        None, "A client that answers the checks of kind `judge` (`ace.skill.CaseCheck`).", python_only=True
    )
    unproven: Unproven = learning_option(
        "keep",
        "What to do with a skill that fails this test in every wording that was tried.",
        group="Proof",
        choices=("keep", "drop"),
        project=refused(_WEAKENS),
    )
    final_test: bool = learning_option(
        True,
        "At the end of a run, repeat its corrections whose skills in the prompt have changed since.",
        group="Proof",
    )

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("checkpoint_dir", "artifacts"):
            if getattr(self, name) is not None:
                file_path(name, getattr(self, name))
        if self.prove not in (True, False, "auto"):
            raise ValueError(f"prove must be True, False or 'auto', got {self.prove!r}")
        _check_sections(self.sections)
        if self.gate is not None:
            with_method("gate", self.gate, "judge")
        if self.judge is not None:
            with_method("judge", self.judge, "complete_structured")


def _check_sections(sections: Any) -> None:
    from ace.steps.sections import checked_sections

    checked_sections(sections)
