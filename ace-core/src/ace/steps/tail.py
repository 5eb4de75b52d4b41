"""`learning_tail`: the last steps of every runner. Some of them have work left at the end of a run (`EndOfRun`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ace.arguments import checked_arguments
from ace.context import ACEStepContext
from ace.proofs import CaseProver
from ace.protocols.deduplication import AsksSkillManagerLike, ProvesMergesLike
from ace.steps.apply import MAX_ADDS, ApplyStep
from ace.steps.artifacts import ArtifactDraftStep, ArtifactStep
from ace.steps.checkpoint import CheckpointStep
from ace.steps.deduplicate import DeduplicateStep
from ace.steps.gate import GateStep
from ace.steps.insights import InsightOutcomeStep, InsightStep, checked_confidence
from ace.steps.known import KnownStep
from ace.steps.prove import ProveStep
from ace.steps.reflect import ReflectStep
from ace.steps.tag import TagStep
from ace.steps.update import UpdateStep

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.insights import InsightLog
    from ace.pipeline import StepProtocol
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.protocols.gate import GateLike
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval, SkillManagerLike
    from ace.skill import Provenance, Unproven
    from ace.skillbook import Skillbook
    from ace.steps.leakage_guard import LeakageGuard

__all__ = ["EndOfEpoch", "EndOfRun", "Prove", "learning_tail"]

Prove = bool | Literal["auto"]
"""Whether skills are proven; with `auto`, they are if the agent declares that it can be asked again."""


@runtime_checkable
class EndOfRun(Protocol):
    """A step that has work left after the last sample. Runners call it, in the order of the steps."""

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Do the remaining work.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was interrupted; then only save what was learned.
        """
        ...


@runtime_checkable
class EndOfEpoch(Protocol):
    """A step that has work after each epoch. Runners call it when all samples of the epoch have ended."""

    def end_epoch(self, epoch: int) -> None:
        """Do that work.

        Args:
            epoch: The epoch, from 1.
        """
        ...


@checked_arguments()
def learning_tail(
    reflector: ReflectorLike,
    skill_manager: SkillManagerLike,
    skillbook: Skillbook,
    *,
    dedup_manager: DeduplicationManagerLike | None = None,
    dedup_interval: int = 10,
    checkpoint_dir: str | Path | None = None,
    checkpoint_interval: int = 10,
    guard: LeakageGuard | None = None,
    max_adds: int | None = MAX_ADDS,
    max_operations: int | None = None,
    sections: Sequence[str] = (),
    learn_without_truth: bool = False,
    insights: InsightLog | None = None,
    min_confidence: float = 0.0,
    gate: GateLike | None = None,
    artifacts: str | Path | None = None,
    artifact_skills: int = 2000,
    provenance: Provenance = "full",
    reflections_per_call: int = 1,
    agent: AgentLike | None = None,
    prove: Prove = "auto",
    judge: AnyLLMClient | None = None,
    environment: TaskEnvironment | None = None,
    retrieval: Retrieval | None = None,
    unproven: Unproven = "keep",
    final_test: bool = True,
) -> list[StepProtocol[ACEStepContext]]:
    """Return the standard steps that learn from a trace.

    Args:
        reflector: Determines what can be learned from a trace.
        skill_manager: Converts that to operations on the skillbook.
        skillbook: The book that learns.
        dedup_manager: Merges duplicate skills. One without a skill manager that accepts one (`with_skill_manager`) asks
            `skill_manager` about doubtful pairs. If skills are proven, one that accepts a prover (`with_prover`) proves
            its merges on their cases.
        dedup_interval: The number of samples between two merges.
        checkpoint_dir: The directory for copies of the book; None writes no copies.
        checkpoint_interval: The number of samples between two copies.
        guard: Decides which operations are rejected; by default those that copy the right answer or a prompt, or
            contain personal data or secrets.
        max_adds: How many skills one answer may add; None sets no limit.
        max_operations: The maximum number of operations of one answer to apply, not counting TAG; None sets no limit.
        sections: The names of the sections that new skills may be in; see `UpdateStep`.
        learn_without_truth: Whether unverified answers may change skills; see `ApplyStep`.
        insights: The log of insights; see `InsightStep`. None records nothing.
        min_confidence: The minimum confidence of insights to learn, from 0 to 1; requires `insights`.
        gate: Decides whether the operations of a sample are applied; see `GateStep`.
        artifacts: The directory for the folders of accepted versions; see `ArtifactStep`. None writes none.
        artifact_skills: The number of skills up to which such a folder contains the whole skillbook.
        provenance: What is kept of a trace with the skills; see `UpdateStep`.
        reflections_per_call: How many reflections one request to the skill manager may be about; see `UpdateStep`.
        agent: The agent that is asked to prove skills.
        prove: Whether skills are proven. With `auto`, they are if the agent has an attribute `can_be_asked_again` that
            is True, as ours have: its answers have no side effects.
        judge: A client that answers the checks of kind `judge` (`ace.skill.CaseCheck`).
        environment: The environment that judges the answers of the run, for the cases that it judged.
        retrieval: Chooses the skills that the agent sees, as for `AgentStep`.
        unproven: What to do with a skill that fails the case that it was learned from; see `ProveStep`.
        final_test: Whether cases whose shown skills have changed are asked once more at the end of a run.

    Returns:
        Known, Reflect, Tag, Insights, Update, Prove, Gate, Apply, then Deduplicate and Checkpoint if requested. Known
        and Prove are omitted if skills are not proven, or with `provenance="ids"`. Insights requires `insights`, and
        adds a step after Apply that records the status of the insights. Gate requires `gate`. With `artifacts`, there
        is a step before Apply that writes the drafts, and one after it that completes them.

    Raises:
        ValueError: `prove` is True and no agent is given, `reflections_per_call` or `min_confidence` is out of range,
            or there is a `min_confidence` without `insights`.
        TypeError: `reflections_per_call` is above 1, and the skill manager lacks `update_skills_together`.
    """
    allow = () if guard is None else guard.allow
    # Without the texts of their cases, skills could not be tested later, so they stay unproven.
    prover = _prover(agent, prove, judge, environment, retrieval) if provenance == "full" else None
    keep_read = insights is not None or artifacts is not None
    reflect = ReflectStep(reflector, allow=allow, is_boundary=prover is None, keep_read=keep_read)
    apply = ApplyStep(
        skillbook,
        guard=guard,
        max_adds=max_adds,
        max_operations=max_operations,
        learn_without_truth=learn_without_truth,
    )
    steps: list[StepProtocol[ACEStepContext]] = [
        reflect,
        TagStep(skillbook),
        UpdateStep(
            skill_manager,
            allow=allow,
            provenance=provenance,
            sections=sections,
            reflections_per_call=reflections_per_call,
        ),
        apply,
    ]
    if prover is not None:
        proof = ProveStep(
            prover.agent,
            skillbook=skillbook,
            prover=prover,
            reflector=reflector,
            guard=guard,
            unproven=unproven,
            final_test=final_test,
            learn_without_truth=learn_without_truth,
        )
        steps = [KnownStep(prover, shares_limit_with=reflect, allow=allow), *steps[:-1], proof, steps[-1]]
    if gate is not None:
        steps.insert(-1, GateStep(gate, skillbook, apply=apply))
    if insights is not None:
        tag = next(place for place, step in enumerate(steps) if isinstance(step, TagStep))
        step = InsightStep(
            insights,
            skillbook,
            min_confidence=min_confidence,
            provenance=provenance,
            client=getattr(reflector, "llm", None),
        )
        steps.insert(tag + 1, step)
        steps.append(InsightOutcomeStep(insights, skillbook))
    elif checked_confidence(min_confidence):
        raise ValueError("min_confidence needs a log of insights; pass insights=InsightLog(path)")
    if artifacts is not None:
        client = getattr(reflector, "llm", None)
        draft = ArtifactDraftStep(artifacts, skillbook, apply=apply, provenance=provenance, client=client)
        steps.insert(steps.index(apply), draft)
        steps.append(ArtifactStep(artifacts, skillbook, max_skills=artifact_skills))
    if dedup_manager is not None:
        if isinstance(dedup_manager, AsksSkillManagerLike):
            dedup_manager = dedup_manager.with_skill_manager(skill_manager)
        if prover is not None and isinstance(dedup_manager, ProvesMergesLike):
            dedup_manager = dedup_manager.with_prover(prover)
        steps.append(DeduplicateStep(dedup_manager, skillbook, interval=dedup_interval))
    if checkpoint_dir is not None:
        steps.append(CheckpointStep(checkpoint_dir, skillbook, interval=checkpoint_interval, provenance=provenance))
    return steps


def _prover(
    agent: AgentLike | None,
    prove: Prove,
    judge: AnyLLMClient | None,
    environment: TaskEnvironment | None,
    retrieval: Retrieval | None,
) -> CaseProver | None:
    """Return the prover of skills, if they are to be proven and can be."""
    if prove not in (True, False, "auto"):
        raise ValueError(f"prove must be True, False or 'auto', got {prove!r}")
    if prove is True and agent is None:
        raise ValueError("prove=True requires an agent to ask; pass it as agent (runners: proof_agent)")
    if agent is None or prove is False:
        return None
    if prove == "auto" and getattr(agent, "can_be_asked_again", False) is not True:
        return None
    environments = {} if environment is None else {type(environment).__name__: environment}
    return CaseProver(agent, judge=judge, environments=environments, retrieval=retrieval)
