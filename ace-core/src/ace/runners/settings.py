"""The settings of all learning runners, and the steps that result from them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from ace.arguments import checked_class, file_path, instance_of, one_of, sequence_of_steps, whole_number, with_method
from ace.context import ACEStepContext
from ace.pipeline import Branch, Pipeline, StepProtocol
from ace.protocols.deduplication import DeduplicationConfig
from ace.runners.run_session import StepEvents
from ace.skill import PROVENANCES, Provenance
from ace.skillbook.book import TEXT_SUFFIXES, Skillbook
from ace.skillbook.locations import has_scheme
from ace.skillbook.stores import find_store
from ace.steps.checkpoint import SaveSkillbookStep
from ace.steps.sections import checked_sections
from ace.steps.update import checked_reflections_per_call

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.insights import InsightLog
    from ace.pipeline import PipelineHook
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.protocols.gate import GateLike
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval, SkillManagerLike
    from ace.skill import Unproven
    from ace.steps.leakage_guard import GuardedKind
    from ace.steps.tail import Prove

__all__ = [
    "LearningOptions",
    "LearningSettings",
    "StepOptions",
    "check_books",
    "rebound",
    "rebound_steps",
    "recomposed",
    "with_save_path",
]


class StepOptions(TypedDict, total=False):
    """The keyword arguments of `build_steps` that all runners share; see `LearningSettings`."""

    skillbook_path: str | Path | None
    dedup_manager: DeduplicationManagerLike | None
    dedup_config: DeduplicationConfig | None
    dedup_interval: int
    checkpoint_dir: str | Path | None
    checkpoint_interval: int
    extra_steps: Sequence[StepProtocol[ACEStepContext]] | None
    allow: Collection[GuardedKind]
    max_adds: int | None
    max_operations: int | None
    sections: Sequence[str]
    learn_without_truth: bool
    insights: InsightLog | None
    min_confidence: float
    gate: GateLike | None
    artifacts: str | Path | None
    artifact_skills: int
    provenance: Provenance
    reflections_per_call: int
    prove: Prove
    proof_agent: AgentLike | None
    judge: AnyLLMClient | None
    unproven: Unproven
    final_test: bool
    hooks: Sequence[PipelineHook] | None
    background_limit: int
    failures_path: str | Path | None


class LearningOptions(StepOptions, total=False):
    """The keyword arguments of `from_roles` that all runners share; see `LearningSettings`."""

    skillbook: Skillbook | None


@checked_class
@dataclass(frozen=True)
class LearningSettings:
    """The settings of learning that all runners share.

    Raises:
        TypeError: The skillbook, a path or the settings of deduplication have the wrong type.
        ValueError: Two settings exclude each other, one is invalid, or the path is not one for a skillbook.

    Example:
        >>> LearningSettings(skillbook=Skillbook(), skillbook_path="skills.json")
        Traceback (most recent call last):
        ...
        ValueError: pass skillbook or skillbook_path, not both
    """

    skillbook: Skillbook | None = None
    """The book that learns; by default a new one."""
    skillbook_path: str | Path | None = None
    """Its file: `.db` is a store with history, as is a location of a plugin, such as `acme://team/skills`; a `.json`
    file is loaded if it exists, and saved."""
    dedup_manager: DeduplicationManagerLike | None = None
    """Merges duplicate skills. One without a skill manager asks that of the runner, as with `dedup_config`."""
    dedup_config: DeduplicationConfig | None = None
    """The settings of a manager to create."""
    dedup_interval: int = 10
    """The number of samples between two merges of duplicate skills."""
    checkpoint_dir: str | Path | None = None
    """The directory for copies of the book and for `failures.jsonl`."""
    checkpoint_interval: int = 10
    """The number of samples between two copies of the book to `checkpoint_dir`. (A JSON file is saved after each
    sample.)"""
    extra_steps: Sequence[StepProtocol[ACEStepContext]] | None = None
    """Further steps, which come last."""
    allow: Collection[GuardedKind] = ()
    """What may be learned although it copies the right answer (`copied_answer`) or a prompt (`copied_prompt`), or looks
    like `personal_data` or a `secret`; see `LeakageGuard`."""
    max_adds: int | None = 50
    """How many skills one answer of the skill manager may add; further ones are skipped and reported. None sets no
    limit."""
    max_operations: int | None = None
    """How many operations of one answer of the skill manager are applied, TAG not counted; further ones are skipped and
    reported. None sets no limit."""
    sections: Sequence[str] = ()
    """The sections that new skills may be in; a skill for any other section is moved to the closest one, see
    `ace.steps.listed_section`. If it is empty, any section is allowed."""
    learn_without_truth: bool = False
    """Whether skills may be changed because of answers that their environment did not verify, such as
    `HeuristicEnvironment`, and whose ground truth is not known. If not, such answers only lead to tags."""
    insights: InsightLog | None = None
    """The log that records the insights of each trace and their status; see `InsightStep`."""
    min_confidence: float = 0.0
    """The minimum confidence of insights to learn, from 0 to 1, which depends on how many tasks support them. Requires
    `insights`."""
    gate: GateLike | None = None
    """Decides whether the operations of a sample are applied, such as `ace.evaluation.CounterGate`. None applies
    all."""
    artifacts: str | Path | None = None
    """The directory for the folders of accepted versions, see `ArtifactStep`. Requires a skillbook in a store."""
    artifact_skills: int = 2000
    """The number of skills up to which such a folder contains the whole skillbook."""
    provenance: Provenance = "full"
    """What is kept of a trace besides the skills learned from it: with `full` its question, the error and the learning,
    the justification, the evidence and the cases; with `ids` only its name, epoch, step and integration. Without cases,
    skills stay unproven. What models answered is deleted from a store when a run with `ids` has ended, and nothing of
    it has failed. The record of a failed sample contains the kind of its error, and none of its texts."""
    reflections_per_call: int = 1
    """How many reflections one request to the skill manager may be about, up to 16: those that wait are asked about
    together. It saves calls and tokens; see `UpdateStep`."""
    prove: Prove = "auto"
    """Whether each new skill is tested on the case that it was learned from. `auto`: if there is an agent that
    says that it can be asked again without further effects, such as `Agent`. See `ProveStep`."""
    proof_agent: AgentLike | None = None
    """The agent that is asked then; by default that of the run, or one over the client of the roles."""
    judge: AnyLLMClient | None = None
    """A client that answers the checks of kind `judge`."""
    unproven: Unproven = "keep"
    """What to do with a skill that fails the case that it was learned from with every text: `keep` or `drop`."""
    final_test: bool = True
    """Whether the cases of a run whose shown skills have changed are asked once more at its end."""
    hooks: Sequence[PipelineHook] | None = None
    """Observers of the foreground steps."""
    background_limit: int = 1000
    """How many samples may be behind the boundary at once, see `Pipeline`."""
    failures_path: str | Path | None = None
    """The file of the failed samples; by default `failures.jsonl` in `checkpoint_dir`, or else next to the file
    of the skillbook."""

    def __post_init__(self) -> None:
        if self.skillbook is not None:
            instance_of("skillbook", self.skillbook, Skillbook, advice="give the path of one as skillbook_path")
        if self.skillbook_path is not None:
            file_path("skillbook_path", self.skillbook_path, advice="give a Skillbook as skillbook")
        if self.checkpoint_dir is not None:
            file_path("checkpoint_dir", self.checkpoint_dir)
        if self.failures_path is not None:
            file_path("failures_path", self.failures_path)
        if self.extra_steps is not None:
            sequence_of_steps("extra_steps", self.extra_steps)
        whole_number("background_limit", self.background_limit, of="samples")
        if self.dedup_config is not None:
            instance_of("dedup_config", self.dedup_config, DeduplicationConfig)
        whole_number("dedup_interval", self.dedup_interval, of="samples")
        whole_number("checkpoint_interval", self.checkpoint_interval, of="samples")
        self._check_changes()
        one_of("provenance", self.provenance, PROVENANCES)
        checked_reflections_per_call(self.reflections_per_call)
        self._check_proofs()
        if self.skillbook is not None and self.skillbook_path is not None:
            raise ValueError("pass skillbook or skillbook_path, not both")
        if self.dedup_manager is not None and self.dedup_config is not None:
            raise ValueError("pass dedup_manager or dedup_config, not both")
        if self.skillbook_path is not None and Path(self.skillbook_path).suffix.lower() in TEXT_SUFFIXES:
            raise ValueError(
                f"{self.skillbook_path}: a run saves its skillbook as .json or .db; "
                "load a text with Skillbook.load_from_file and pass it as skillbook"
            )

    def _check_changes(self) -> None:
        if self.max_adds is not None:
            whole_number("max_adds", self.max_adds, of="skills")
        if self.max_operations is not None:
            whole_number("max_operations", self.max_operations, of="operations")
        checked_sections(self.sections)
        if self.gate is not None:
            with_method("gate", self.gate, "judge")
        if self.artifacts is not None:
            file_path("artifacts", self.artifacts)
        whole_number("artifact_skills", self.artifact_skills, least=0, of="skills")

    def _check_proofs(self) -> None:
        if self.prove not in (True, False, "auto"):
            raise ValueError(f"prove must be True, False or 'auto', got {self.prove!r}")
        if self.unproven not in ("keep", "drop"):
            raise ValueError(f"unproven must be 'keep' or 'drop', got {self.unproven!r}")
        if self.proof_agent is not None:
            with_method("proof_agent", self.proof_agent, "generate")
        if self.judge is not None:
            with_method("judge", self.judge, "complete_structured")

    def book(self) -> Skillbook:
        """Return the given book, the one in the file, or a new one."""
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
        from ace.steps.checkpoint import SaveSkillbookStep
        from ace.steps.leakage_guard import LeakageGuard
        from ace.steps.tail import learning_tail

        steps = learning_tail(
            reflector,
            skill_manager,
            skillbook,
            dedup_manager=self._manager(skill_manager),
            dedup_interval=self.dedup_interval,
            checkpoint_dir=self.checkpoint_dir,
            checkpoint_interval=self.checkpoint_interval,
            guard=LeakageGuard(self.allow),
            max_adds=self.max_adds,
            max_operations=self.max_operations,
            sections=self.sections,
            learn_without_truth=self.learn_without_truth,
            insights=self.insights,
            min_confidence=self.min_confidence,
            gate=self.gate,
            artifacts=self.artifacts,
            artifact_skills=self.artifact_skills,
            provenance=self.provenance,
            reflections_per_call=self.reflections_per_call,
            agent=agent if self.proof_agent is None else self.proof_agent,
            prove=self.prove,
            judge=self.judge,
            environment=environment,
            retrieval=retrieval,
            unproven=self.unproven,
            final_test=self.final_test,
        )
        path = self.skillbook_path
        if path is not None and find_store(path) is None:
            steps.append(SaveSkillbookStep(path, skillbook))
        return [*steps, *(self.extra_steps or ())]

    def failures_file(self) -> Path | None:
        """Return the file for failed samples; None if no file or directory is known for it."""
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
        from ace.runners.settings import rebound_steps

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


Step = StepProtocol[ACEStepContext]

_LEARNED_FIELDS = frozenset({"reflection", "skill_manager_output"})


def check_books(pipeline: Pipeline[ACEStepContext], skillbook: Skillbook, runner: str) -> None:
    """Check that what a pipeline learns is written into the book of its runner.

    Args:
        pipeline: The pipeline.
        skillbook: The book of the runner.
        runner: The name of the runner, for the error.

    Raises:
        ValueError: A step has another book, or none has this one although one of them learns.
    """
    steps = list(_all_steps(pipeline.steps))
    others = [(step, book) for step in steps if (book := _book_of(step)) is not None and book is not skillbook]
    if others:
        held = ", ".join(f"{type(step).__name__} holds a {book!r}" for step, book in others)
        raise ValueError(
            f"{held}, but {runner} has {skillbook!r}, another object: what is learned would not be in "
            f"{runner}.skillbook. Create the steps with skillbook=book, and create the runner with the same book"
        )
    learning = [type(step).__name__ for step in steps if _LEARNED_FIELDS & frozenset(step.provides)]
    if learning and not any(_holds(step, skillbook) for step in steps):
        raise ValueError(
            f"no step of {runner} writes its skillbook, so what it learns would be lost: its learning steps are "
            f"{', '.join(learning)}. Add the steps that write, or end the pipeline in "
            "learning_tail(reflector, skill_manager, skillbook)"
        )


def _all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, and those of nested pipelines and branches."""
    for step in steps:
        if isinstance(step, Pipeline):
            yield from _all_steps(step.steps)
        elif isinstance(step, Branch):
            yield from _all_steps(step.pipelines)
        else:
            yield step


def _book_of(step: Step) -> Skillbook | None:
    """Return the book that a step writes: the key of its lane, or what it calls `skillbook`."""
    for name in ("lane_key", "skillbook"):
        found = getattr(step, name, None)
        if isinstance(found, Skillbook):
            return found
    return None


def _holds(step: Step, skillbook: Skillbook) -> bool:
    """Whether a step refers to a book, under whatever name."""
    return _book_of(step) is skillbook or any(value is skillbook for value in getattr(step, "__dict__", {}).values())


def recomposed(pipeline: Pipeline[ACEStepContext], steps: Sequence[Step]) -> Pipeline[ACEStepContext]:
    """Return a pipeline of the given steps with the hooks and the background limit of another one.

    Args:
        pipeline: The other one.
        steps: The steps.
    """
    return Pipeline[ACEStepContext](
        steps, hooks=pipeline.hooks, background_limit=pipeline.background_limit, step_observer=StepEvents()
    )


def rebound_steps(steps: Sequence[Step], old: Skillbook, new: Skillbook) -> list[Step]:
    """Return copies of the steps with every reference to the old book replaced; the given ones do not change.

    Args:
        steps: The steps of a pipeline.
        old: The book that they change.
        new: The book that the returned steps change.
    """
    return [rebound(step, old, new) for step in steps]


def rebound(step: Step, old: Skillbook, new: Skillbook) -> Step:
    """Return a copy of a step with every reference to the old book replaced, or the step itself if it has none.

    Args:
        step: The step.
        old: The book that it changes.
        new: The book that the returned step changes.
    """
    if isinstance(step, Pipeline):
        inner = rebound_steps(step.steps, old, new)
        return (
            step
            if _same(inner, step.steps)
            else Pipeline(inner, hooks=step.hooks, background_limit=step.background_limit)
        )
    if isinstance(step, Branch):
        children = rebound_steps(step.pipelines, old, new)
        return step if _same(children, step.pipelines) else Branch(*children, merge=step._merge_fn)
    names = [name for name, value in getattr(step, "__dict__", {}).items() if value is old]
    if not names:
        return step
    changed = copy.copy(step)
    for name in names:
        setattr(changed, name, new)
    return changed


def with_save_path(steps: Sequence[Step], path: Path | None) -> list[Step]:
    """Return the steps with a `SaveSkillbookStep` to another file.

    Args:
        steps: The steps of a pipeline.
        path: The JSON file; None removes the step.
    """
    found: list[Step] = []
    for step in steps:
        if not isinstance(step, SaveSkillbookStep):
            found.append(step)
        elif path is not None:
            found.append(SaveSkillbookStep(path, step.skillbook, interval=step.interval))
    return found


def _same(first: Sequence[Step], second: Sequence[Step]) -> bool:
    return all(one is other for one, other in zip(first, second, strict=True))
