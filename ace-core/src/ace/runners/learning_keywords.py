"""Written from the declarations of the options by `python -m docs.generated_options`; do not edit it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.steps.tail_keywords import TailOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ace.context import ACEStepContext
    from ace.pipeline import PipelineHook, StepProtocol
    from ace.proof.leakage_guard import GuardedKind
    from ace.protocols.deduplication import DeduplicationConfig
    from ace.protocols.roles import AgentLike
    from ace.skillbook import Skillbook
__all__ = ["LearningOptions", "StepOptions"]


class StepOptions(TailOptions, total=False):
    """The keywords of `build_steps` that all runners share; see `LearningSettings`."""

    skillbook_path: str | Path | None
    """Its file: `.db` is a store with history, as is a location of a plugin, such as `acme://team/skills`; a `.json`
    file is loaded if it exists, and saved."""
    dedup_config: DeduplicationConfig | None
    """The settings of a manager that merges duplicate skills, to create."""
    extra_steps: Sequence[StepProtocol[ACEStepContext]] | None
    """Further steps, which come last."""
    allow: Collection[GuardedKind]
    """Turn off a safeguard: allow personal data (or one class of it), secrets, or copies of the correct answer or of a
    prompt, which are otherwise redacted or rejected. See `LeakageGuard`."""
    proof_agent: AgentLike | None
    """The agent that is asked to prove skills; by default that of the run, or one over the client of the roles."""
    hooks: Sequence[PipelineHook] | None
    """Observers of the foreground steps."""
    background_limit: int
    """How many samples may be behind the boundary at once, see `Pipeline`."""
    failures_path: str | Path | None
    """The file of the failed samples; by default `failures.jsonl` in `checkpoint_dir`, or else next to the file of the
    skillbook."""


class LearningOptions(StepOptions, total=False):
    """The keywords of `from_roles` that all runners share; see `LearningSettings`."""

    skillbook: Skillbook | None
    """The book that learns; by default a new one."""
