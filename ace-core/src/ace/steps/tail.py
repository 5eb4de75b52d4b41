"""`learning_tail`: the steps with which every runner ends, and what they do once more when a run is over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ace.arguments import checked_arguments
from ace.context import ACEStepContext
from ace.proofs import CaseProver
from ace.protocols.deduplication import AsksSkillManagerLike, ProvesMergesLike
from ace.steps.apply import MAX_ADDS, ApplyStep
from ace.steps.checkpoint import CheckpointStep
from ace.steps.deduplicate import DeduplicateStep
from ace.steps.known import KnownStep
from ace.steps.prove import ProveStep
from ace.steps.reflect import ReflectStep
from ace.steps.tag import TagStep
from ace.steps.update import UpdateStep

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.pipeline import StepProtocol
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval, SkillManagerLike
    from ace.skill import Provenance
    from ace.skillbook import Skillbook
    from ace.steps.copy_guard import CopyGuard
    from ace.steps.prove import Unproven

__all__ = ["EndOfRun", "Prove", "end_steps", "learning_tail"]

logger = logging.getLogger(__name__)

Prove = bool | Literal["auto"]
"""Whether skills are proven: `auto` if the agent says that it can be asked again."""


@runtime_checkable
class EndOfRun(Protocol):
    """A step that has work left when the last sample is through. Runners call it, in the order of the steps."""

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Do what is left.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was interrupted, so that only what saves work is done.
        """
        ...


def end_steps(
    steps: Iterable[object], last_index: int, *, interrupted: bool, on_problem: Callable[[Exception], None]
) -> None:
    """Let steps do what they have left. One that cannot, such as write a file, does not keep the others from it.

    Args:
        steps: The steps of a pipeline, in order.
        last_index: The `global_sample_index` of the last sample.
        interrupted: Whether the run was interrupted.
        on_problem: Told of what a step raises.
    """
    for step in steps:
        if isinstance(step, EndOfRun):
            try:
                step.end_run(last_index, interrupted=interrupted)
            except Exception as error:
                logger.error("%s could not end the run: %s", type(step).__name__, error)
                on_problem(error)


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
    guard: CopyGuard | None = None,
    max_adds: int | None = MAX_ADDS,
    provenance: Provenance = "full",
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
        reflector: Who finds out what a trace teaches.
        skill_manager: Who turns that into operations.
        skillbook: The book that learns.
        dedup_manager: Merges similar skills. One that has no skill manager of its own, and can be given one
            (`with_skill_manager`), asks `skill_manager` about doubtful pairs. Where skills are proven, one that can
            be given a prover (`with_prover`) proves its merges on their cases.
        dedup_interval: The number of samples between two merges.
        checkpoint_dir: Where copies of the book go, if anywhere.
        checkpoint_interval: The number of samples between two copies.
        guard: Decides which operations are rejected; by default those that copy the right answer or a prompt, or hold
            personal data or secrets.
        max_adds: How many skills one answer may add; None sets no limit.
        provenance: What is kept of a trace beside the skills; see `UpdateStep`.
        agent: The agent that is asked to prove skills.
        prove: Whether it is. With `auto`, an agent is asked that has an attribute `can_be_asked_again` which is true,
            as ours have: its answers have no other effect.
        judge: A client that answers the checks of kind `judge` (`ace.skill.CaseCheck`).
        environment: The environment that judges the answers of the run, for the cases that it judged.
        retrieval: Chooses the skills that the agent sees, as for `AgentStep`.
        unproven: What becomes of a skill that fails the case that taught it; see `ProveStep`.
        final_test: Whether cases whose shown skills have changed are asked once more at the end of a run.

    Returns:
        Known, Reflect, Tag, Update, Prove, Apply, then Deduplicate and Checkpoint where asked for. Without an agent
        that is asked, or with `provenance="ids"`, Known and Prove are missing.

    Raises:
        ValueError: `prove` is True and there is no agent.
    """
    allow = () if guard is None else guard.allow
    # Without the texts of cases, nothing could be asked again later: such skills stay unproven.
    prover = _prover(agent, prove, judge, environment, retrieval) if provenance == "full" else None
    reflect = ReflectStep(reflector, allow=allow, is_boundary=prover is None)
    steps: list[StepProtocol[ACEStepContext]] = [
        reflect,
        TagStep(skillbook),
        UpdateStep(skill_manager, allow=allow, provenance=provenance),
        ApplyStep(skillbook, guard=guard, max_adds=max_adds),
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
        )
        steps = [KnownStep(prover, shares_limit_with=reflect, allow=allow), *steps[:-1], proof, steps[-1]]
    if dedup_manager is not None:
        if isinstance(dedup_manager, AsksSkillManagerLike):
            dedup_manager = dedup_manager.with_skill_manager(skill_manager)
        if prover is not None and isinstance(dedup_manager, ProvesMergesLike):
            dedup_manager = dedup_manager.with_prover(prover)
        steps.append(DeduplicateStep(dedup_manager, skillbook, interval=dedup_interval))
    if checkpoint_dir is not None:
        steps.append(CheckpointStep(checkpoint_dir, skillbook, interval=checkpoint_interval))
    return steps


def _prover(
    agent: AgentLike | None,
    prove: Prove,
    judge: AnyLLMClient | None,
    environment: TaskEnvironment | None,
    retrieval: Retrieval | None,
) -> CaseProver | None:
    """Return what proves skills, if that is wanted and possible."""
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
