"""The steps of the learning core. Nothing is imported before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.loop.artifacts import Artifact, ArtifactDraftStep, ArtifactStep, artifacts_in, unfinished_artifacts
    from ace.loop.gate_step import GateStep
    from ace.loop.insight_steps import InsightOutcomeStep, InsightStep
    from ace.proof.leakage_guard import GuardedKind, LeakageGuard
    from ace.steps.agent import AgentStep, EvaluateStep
    from ace.steps.apply import ApplyStep
    from ace.steps.checkpoint import CheckpointStep, ExportSkillbookMarkdownStep, PersistStep, SaveSkillbookStep
    from ace.steps.deduplicate import DeduplicateStep
    from ace.steps.known import KnownStep
    from ace.steps.load_traces import LoadTracesStep
    from ace.steps.observability import ObservabilityStep
    from ace.steps.prove import ProveStep
    from ace.steps.prune import PruneStep
    from ace.steps.reflect import ReflectStep
    from ace.steps.tag import TagStep
    from ace.steps.tail import EndOfEpoch, EndOfRun, learning_tail
    from ace.steps.tail_keywords import TailOptions
    from ace.steps.tail_settings import TailSettings, listed_section
    from ace.steps.update import UpdateStep

__all__ = [
    "AgentStep",
    "ApplyStep",
    "Artifact",
    "ArtifactDraftStep",
    "ArtifactStep",
    "CheckpointStep",
    "DeduplicateStep",
    "EndOfEpoch",
    "EndOfRun",
    "EvaluateStep",
    "ExportSkillbookMarkdownStep",
    "GateStep",
    "GuardedKind",
    "InsightOutcomeStep",
    "InsightStep",
    "KnownStep",
    "LeakageGuard",
    "LoadTracesStep",
    "ObservabilityStep",
    "PersistStep",
    "ProveStep",
    "PruneStep",
    "ReflectStep",
    "SaveSkillbookStep",
    "TagStep",
    "TailOptions",
    "TailSettings",
    "UpdateStep",
    "artifacts_in",
    "learning_tail",
    "listed_section",
    "unfinished_artifacts",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AgentStep": "agent",
        "ApplyStep": "apply",
        "Artifact": "ace.loop.artifacts",
        "ArtifactDraftStep": "ace.loop.artifacts",
        "ArtifactStep": "ace.loop.artifacts",
        "CheckpointStep": "checkpoint",
        "DeduplicateStep": "deduplicate",
        "EndOfEpoch": "tail",
        "EndOfRun": "tail",
        "EvaluateStep": "agent",
        "ExportSkillbookMarkdownStep": "checkpoint",
        "GateStep": "ace.loop.gate_step",
        "GuardedKind": "ace.proof.leakage_guard",
        "InsightOutcomeStep": "ace.loop.insight_steps",
        "InsightStep": "ace.loop.insight_steps",
        "KnownStep": "known",
        "LeakageGuard": "ace.proof.leakage_guard",
        "LoadTracesStep": "load_traces",
        "ObservabilityStep": "observability",
        "PersistStep": "checkpoint",
        "ProveStep": "prove",
        "PruneStep": "prune",
        "ReflectStep": "reflect",
        "SaveSkillbookStep": "checkpoint",
        "TagStep": "tag",
        "TailOptions": "tail_keywords",
        "TailSettings": "tail_settings",
        "UpdateStep": "update",
        "artifacts_in": "ace.loop.artifacts",
        "learning_tail": "tail",
        "listed_section": "tail_settings",
        "unfinished_artifacts": "ace.loop.artifacts",
    },
)
