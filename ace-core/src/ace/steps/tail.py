"""`learning_tail`: the last steps of every runner. Some of them have work left at the end of a run (`EndOfRun`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, Unpack, runtime_checkable

from ace._internal.arguments import checked_arguments
from ace.context import ACEStepContext
from ace.loop.artifacts import ArtifactDraftStep, ArtifactStep
from ace.loop.gate_step import GateStep
from ace.loop.insight_steps import InsightOutcomeStep, InsightStep
from ace.proof.prover import CaseProver
from ace.protocols.deduplication import AsksSkillManagerLike, ProvesMergesLike
from ace.steps.apply import ApplyStep
from ace.steps.checkpoint import CheckpointStep
from ace.steps.deduplicate import DeduplicateStep
from ace.steps.known import KnownStep
from ace.steps.prove import ProveStep
from ace.steps.reflect import ReflectStep
from ace.steps.tag import TagStep
from ace.steps.tail_keywords import TailOptions
from ace.steps.tail_settings import TailSettings
from ace.steps.update import UpdateStep

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.pipeline import StepProtocol
    from ace.proof.leakage_guard import LeakageGuard
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval, SkillManagerLike
    from ace.skillbook import Skillbook

__all__ = ["EndOfEpoch", "EndOfRun", "learning_tail", "tail_steps"]


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


@checked_arguments(TailOptions)
def learning_tail(
    reflector: ReflectorLike,
    skill_manager: SkillManagerLike,
    skillbook: Skillbook,
    *,
    guard: LeakageGuard | None = None,
    agent: AgentLike | None = None,
    environment: TaskEnvironment | None = None,
    retrieval: Retrieval | None = None,
    **options: Unpack[TailOptions],
) -> list[StepProtocol[ACEStepContext]]:
    """Return the standard steps that learn from a trace.

    Args:
        reflector: Determines what can be learned from a trace.
        skill_manager: Converts that to operations on the skillbook.
        skillbook: The book that learns.
        guard: Decides which operations are rejected; by default those that copy the right answer or a prompt, or
            contain personal data or secrets.
        agent: The agent that is asked to prove skills.
        environment: The environment that judges the answers of the run, for the cases that it judged.
        retrieval: Chooses the skills that the agent sees, as for `AgentStep`.
        **options: The settings of these steps, see `TailSettings`: dedup_manager, dedup_interval, checkpoint_dir,
            max_adds, sections, gate, prove and so on.

    Returns:
        Known, Reflect, Known, Tag, Insights, Update, Prove, Gate, Apply, then Deduplicate and Checkpoint if requested.
        Known and Prove are omitted if skills are not proven, or with `provenance="ids"`. Insights requires `insights`,
        and adds a step after Apply that records the status of the insights. Gate requires `gate`. With `artifacts`,
        there is a step before Apply that writes the drafts, and one after it that completes them.

    Raises:
        ValueError: `prove` is True and no agent is given, `reflections_per_call` or `min_confidence` is out of range,
            or there is a `min_confidence` without `insights`.
        TypeError: `reflections_per_call` is above 1, and the skill manager lacks `update_skills_together`.
    """
    settings = TailSettings(**options)
    return tail_steps(
        *(reflector, skill_manager, skillbook, settings),
        guard=guard,
        agent=agent,
        environment=environment,
        retrieval=retrieval,
    )


def tail_steps(
    reflector: ReflectorLike,
    skill_manager: SkillManagerLike,
    skillbook: Skillbook,
    settings: TailSettings,
    *,
    guard: LeakageGuard | None,
    agent: AgentLike | None,
    environment: TaskEnvironment | None,
    retrieval: Retrieval | None,
) -> list[StepProtocol[ACEStepContext]]:
    """Return the steps of `learning_tail`.

    Args:
        reflector: As for `learning_tail`.
        skill_manager: As for `learning_tail`.
        skillbook: As for `learning_tail`.
        settings: The options.
        guard: As for `learning_tail`.
        agent: As for `learning_tail`.
        environment: As for `learning_tail`.
        retrieval: As for `learning_tail`.
    """
    allow = () if guard is None else guard.allow
    prover = _prover(agent, settings, environment, retrieval)
    keep_read = settings.insights is not None or settings.artifacts is not None
    reflect = ReflectStep(reflector, allow=allow, is_boundary=prover is None, keep_read=keep_read)
    apply = ApplyStep(skillbook, guard=guard, settings=settings)
    proof = None
    if prover is not None:
        proof = ProveStep(
            prover.agent, skillbook=skillbook, prover=prover, reflector=reflector, guard=guard, settings=settings
        )
    update = UpdateStep(skill_manager, allow=allow, proof=proof, settings=settings)
    steps: list[StepProtocol[ACEStepContext]] = [reflect, TagStep(skillbook), update, apply]
    if prover is not None and proof is not None:
        known = KnownStep(prover, shares_limit_with=reflect, allow=allow)
        known_after = KnownStep(prover, shares_limit_with=reflect, allow=allow, is_boundary=False)
        steps = [known, reflect, known_after, *steps[1:-1], proof, apply]
    if settings.gate is not None:
        steps.insert(-1, GateStep(settings.gate, skillbook, apply=apply))
    client = getattr(reflector, "llm", None)
    if settings.insights is not None:
        tag = next(place for place, step in enumerate(steps) if isinstance(step, TagStep))
        confidence, provenance = settings.min_confidence, settings.provenance
        step = InsightStep(
            settings.insights, skillbook, min_confidence=confidence, provenance=provenance, client=client
        )
        steps.insert(tag + 1, step)
        steps.append(InsightOutcomeStep(settings.insights, skillbook))
    elif settings.min_confidence:
        raise ValueError("min_confidence needs a log of insights; pass insights=InsightLog(path)")
    if settings.artifacts is not None:
        draft = ArtifactDraftStep(
            settings.artifacts, skillbook, apply=apply, provenance=settings.provenance, client=client
        )
        steps.insert(steps.index(apply), draft)
        steps.append(ArtifactStep(settings.artifacts, skillbook, max_skills=settings.artifact_skills))
    return [*steps, *_upkeep(skill_manager, skillbook, settings, prover)]


def _upkeep(
    skill_manager: SkillManagerLike, skillbook: Skillbook, settings: TailSettings, prover: CaseProver | None
) -> Iterator[StepProtocol[ACEStepContext]]:
    """Yield the steps that merge duplicates and write copies, if they are requested."""
    manager = settings.dedup_manager
    if manager is not None:
        if isinstance(manager, AsksSkillManagerLike):
            manager = manager.with_skill_manager(skill_manager)
        if prover is not None and isinstance(manager, ProvesMergesLike):
            manager = manager.with_prover(prover)
        yield DeduplicateStep(manager, skillbook, interval=settings.dedup_interval)
    if settings.checkpoint_dir is not None:
        interval, provenance = settings.checkpoint_interval, settings.provenance
        yield CheckpointStep(settings.checkpoint_dir, skillbook, interval=interval, provenance=provenance)


def _prover(
    agent: AgentLike | None,
    settings: TailSettings,
    environment: TaskEnvironment | None,
    retrieval: Retrieval | None,
) -> CaseProver | None:
    """Return the prover of skills, if they are to be proven and can be."""
    if settings.provenance != "full":
        return None  # without the texts of their cases, skills could not be tested later, so they stay unproven
    if settings.prove is True and agent is None:
        raise ValueError("prove=True requires an agent to ask; pass it as agent (runners: proof_agent)")
    if agent is None or settings.prove is False:
        return None
    if settings.prove == "auto" and getattr(agent, "can_be_asked_again", False) is not True:
        return None
    environments = {} if environment is None else {type(environment).__name__: environment}
    # The model that answers also judges what code cannot, unless another client is given.
    judge = settings.judge
    if judge is None and callable(getattr(getattr(agent, "llm", None), "complete_structured", None)):
        judge = getattr(agent, "llm", None)
    return CaseProver(agent, judge=judge, environments=environments, retrieval=retrieval)
