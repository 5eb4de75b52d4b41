"""The settings of all learning runners, and the steps that result from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class, file_path, instance_of, sequence_of_steps, whole_number, with_method
from ace._options import learning_option, option
from ace.steps.tail_settings import TailSettings

# The command line reads these declarations: what is slow to import is imported where it is used.
if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.environments import TaskEnvironment
    from ace.pipeline import PipelineHook, StepProtocol
    from ace.protocols.deduplication import DeduplicationConfig, DeduplicationManagerLike
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval, SkillManagerLike
    from ace.skillbook import Skillbook
    from ace.steps.leakage_guard import GuardedKind

__all__ = ["LearningSettings"]


def _guarded_kinds() -> Sequence[str]:
    from ace.steps.leakage_guard import guarded_kinds

    return guarded_kinds()


def _allowed_in_project(name: str, words: str, _project: Path) -> str | None:
    private = [word for word in words.split(",") if not word.startswith("copied_")]
    if not private:
        return None
    return f"{name!r} in the file of a project may not contain {private[0]!r}, since your own data would be sent"


@checked_class
@dataclass(frozen=True, kw_only=True)
class LearningSettings(TailSettings):
    """The settings of learning that all runners share.

    Raises:
        TypeError: The skillbook, a path or the settings of deduplication have the wrong type.
        ValueError: Two settings exclude each other, one is invalid, or the path is not one for a skillbook.

    Example:
        >>> from ace import Skillbook
        >>> LearningSettings(skillbook=Skillbook(), skillbook_path="skills.json")
        Traceback (most recent call last):
        ...
        ValueError: pass skillbook or skillbook_path, not both
    """

    skillbook: Skillbook | None = option(None, "The book that learns; by default a new one.", python_only=True)
    skillbook_path: str | Path | None = option(
        None,
        "Its file: `.db` is a store with history, as is a location of a plugin, such as `acme://team/skills`; a "
        "`.json` file is loaded if it exists, and saved.",
        python_only=True,
    )
    dedup_config: DeduplicationConfig | None = option(
        None, "The settings of a manager that merges duplicate skills, to create.", python_only=True
    )
    extra_steps: Sequence[StepProtocol[ACEStepContext]] | None = option(
        None, "Further steps, which come last.", python_only=True
    )
    allow: Collection[GuardedKind] = learning_option(
        (),
        "Turn off a safeguard: allow personal data (or one class of it), secrets, or copies of the correct answer or "
        "of a prompt, which are otherwise redacted or rejected.",
        details="See `LeakageGuard`.",
        group="Safeguards",
        words=_guarded_kinds,
        project=_allowed_in_project,
    )
    proof_agent: AgentLike | None = option(
        None,
        "The agent that is asked to prove skills; by default that of the run, or one over the client of the roles.",
        python_only=True,
    )
    hooks: Sequence[PipelineHook] | None = option(None, "Observers of the foreground steps.", python_only=True)
    background_limit: int = option(
        1000,
        "How many samples may be behind the boundary at once, see `Pipeline`.",
        python_only=True,
    )
    failures_path: str | Path | None = option(
        None,
        "The file of the failed samples; by default `failures.jsonl` in `checkpoint_dir`, or else next to the file of "
        "the skillbook.",
        python_only=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.skillbook is not None or self.skillbook_path is not None:
            self._check_book()
        if self.failures_path is not None:
            file_path("failures_path", self.failures_path)
        if self.extra_steps is not None:
            sequence_of_steps("extra_steps", self.extra_steps)
        if self.dedup_config is not None:
            from ace.protocols.deduplication import DeduplicationConfig

            instance_of("dedup_config", self.dedup_config, DeduplicationConfig)
        if self.proof_agent is not None:
            with_method("proof_agent", self.proof_agent, "generate")
        whole_number("background_limit", self.background_limit, of="samples")
        if self.dedup_manager is not None and self.dedup_config is not None:
            raise ValueError("pass dedup_manager or dedup_config, not both")

    def _check_book(self) -> None:
        from ace.skillbook.book import TEXT_SUFFIXES, Skillbook

        if self.skillbook is not None:
            instance_of("skillbook", self.skillbook, Skillbook, advice="give the path of one as skillbook_path")
        if self.skillbook_path is not None:
            file_path("skillbook_path", self.skillbook_path, advice="give a Skillbook as skillbook")
        if self.skillbook is not None and self.skillbook_path is not None:
            raise ValueError("pass skillbook or skillbook_path, not both")
        if self.skillbook_path is not None and Path(self.skillbook_path).suffix.lower() in TEXT_SUFFIXES:
            raise ValueError(
                f"{self.skillbook_path}: a run saves its skillbook as .json or .db; "
                "load a text with Skillbook.load_from_file and pass it as skillbook"
            )

    def book(self) -> Skillbook:
        """Return the given book, the one in the file, or a new one."""
        from ace.skillbook import Skillbook

        if self.skillbook is not None:
            return self.skillbook
        return Skillbook() if self.skillbook_path is None else Skillbook.open(self.skillbook_path)

    def tail(
        self,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        *,
        agent: AgentLike | None = None,
        environment: TaskEnvironment | None = None,
        retrieval: Retrieval | None = None,
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that learn, with those that save and those of the caller.

        Args:
            reflector: Determines what can be learned from a trace.
            skill_manager: Converts that to operations on the skillbook.
            skillbook: The book that learns.
            agent: The agent of the run, if there is one.
            environment: Judges its answers; optional.
            retrieval: Chooses the skills that it sees; optional.

        Raises:
            TypeError: A role lacks the method that it needs.
            ValueError: Skills are to be proven, but no agent is given.
        """
        with_method("reflector", reflector, "reflect")
        with_method("skill_manager", skill_manager, "update_skills")
        from ace.skillbook.stores import find_store
        from ace.steps.checkpoint import SaveSkillbookStep
        from ace.steps.leakage_guard import LeakageGuard
        from ace.steps.tail import tail_steps

        steps = tail_steps(
            reflector,
            skill_manager,
            skillbook,
            replace(self, dedup_manager=self._manager(skill_manager), dedup_config=None),
            guard=LeakageGuard(self.allow),
            agent=agent if self.proof_agent is None else self.proof_agent,
            environment=environment,
            retrieval=retrieval,
        )
        path = self.skillbook_path
        if path is not None and find_store(path) is None:
            steps.append(SaveSkillbookStep(path, skillbook))
        return [*steps, *(self.extra_steps or ())]

    def failures_file(self) -> Path | None:
        """Return the file for failed samples; None if no file or directory is known for it."""
        from ace.skillbook.locations import has_scheme

        if self.failures_path is not None:
            return Path(self.failures_path)
        if self.checkpoint_dir is not None:
            return Path(self.checkpoint_dir) / "failures.jsonl"
        if self.skillbook_path is None or has_scheme(self.skillbook_path):
            return None
        return Path(self.skillbook_path).with_name("failures.jsonl")

    def moved(self, old: Skillbook, new: Skillbook, path: str | Path) -> LearningSettings:
        """Return the settings for another book; extra steps that changed the old one change the new one.

        Args:
            old: The book so far.
            new: The other book.
            path: Its file.
        """
        from ace.runners.recomposed import rebound_steps

        steps = rebound_steps(self.extra_steps or (), old, new)
        if self.skillbook_path is None:
            return replace(self, skillbook=new, extra_steps=steps)
        return replace(self, skillbook_path=path, extra_steps=steps)

    def _manager(self, skill_manager: SkillManagerLike) -> DeduplicationManagerLike | None:
        if self.dedup_config is None:
            return self.dedup_manager
        if not self.dedup_config.enabled:
            return None
        from ace.deduplication import DeduplicationManager

        return DeduplicationManager(self.dedup_config, skill_manager=skill_manager)
