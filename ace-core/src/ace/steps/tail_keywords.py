"""Written from the declarations of the options by `python -m docs.generated_options`; do not edit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ace.loop.insights import InsightLog
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.protocols.gate import GateLike
    from ace.protocols.llm import AnyLLMClient
    from ace.skill import Provenance, Unproven
    from ace.steps.tail_settings import Prove
__all__ = ["TailOptions"]


class TailOptions(TypedDict, total=False):
    """The keywords of `learning_tail` and of its steps; see `TailSettings`."""

    dedup_manager: DeduplicationManagerLike | None
    """Merges duplicate skills. One without a skill manager that accepts one (`with_skill_manager`) asks that of the run
    about doubtful pairs. If skills are proven, one that accepts a prover (`with_prover`) proves its merges."""
    dedup_interval: int
    """The number of inputs between two merges of duplicate skills."""
    checkpoint_dir: str | Path | None
    """Write copies of the skillbook to this folder during the run."""
    checkpoint_interval: int
    """The number of inputs between two copies in checkpoint_dir."""
    max_adds: int | None
    """How many skills one answer of the skill manager may add; further ones are skipped and reported. None sets no
    limit."""
    max_operations: int | None
    """Apply at most this many changes per trace, not counting judgements of skills. Further ones are skipped and
    reported. None sets no limit."""
    sections: Sequence[str]
    """The sections that new skills may be in; others are moved to the nearest of them. See `ace.steps.listed_section`.
    If it is empty, any section is allowed."""
    learn_without_truth: bool
    """Also add and change skills because of unverified answers; by default, these only lead to judgements of skills.
    Unverified are the answers that an environment such as `HeuristicEnvironment` did not verify, and whose ground truth
    is not known."""
    insights: InsightLog | None
    """The log that records the insights of each trace and their status; see `InsightStep`."""
    min_confidence: float
    """Learn only insights with at least this confidence, from 0 to 1, which depends on how many tasks support them.
    Other insights stay pending in insights.jsonl. Requires `insights`."""
    gate: GateLike | None
    """Decides whether the operations of a sample are applied, such as `ace.evaluation.CounterGate`; see `GateStep`.
    None applies all."""
    artifacts: str | Path | None
    """The directory for the folders of accepted versions, see `ArtifactStep`. Requires a skillbook in a store."""
    artifact_skills: int
    """The number of skills up to which an artifact contains the whole skillbook."""
    provenance: Provenance
    """What to record about the source of a skill: full, or ids, which records the name of the trace but none of its
    text, so skills have no cases. With `ids`, skills stay unproven, what models answered is deleted from a store when a
    run has ended and nothing of it has failed, and the record of a failed sample contains only the kind of its
    error."""
    reflections_per_call: int
    """Request the changes for up to this many reflections in one call, to save calls and tokens. See `UpdateStep`."""
    prove: Prove
    """Test each new skill on the correction that it was learned from before keeping it. With `auto`, skills are tested
    if the agent has an attribute `can_be_asked_again` that is True, as ours have: its answers have no side effects. See
    `ProveStep`."""
    judge: AnyLLMClient | None
    """A client that judges the answers about which code cannot tell. By default, the client of the agent that is
    asked."""
    unproven: Unproven
    """What to do with a skill that nothing shows to be right: pending keeps it for `ace review` without showing it to
    agents, keep shows it, drop removes it if it fails its test. Such a skill fails the test in every wording that was
    tried, or was learned from a trace that no one judged; see `ace.skill.Evidence`."""
    final_test: bool
    """At the end of a run, repeat its corrections whose skills in the prompt have changed since."""
