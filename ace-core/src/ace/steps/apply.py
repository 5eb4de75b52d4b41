"""`ApplyStep`: writes the operations into the skillbook."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Unpack

from ace._internal.arguments import checked_arguments
from ace._internal.json_fields import list_in, mapping_in
from ace.calls.sample_context import is_learned, needed, run_of
from ace.context import ACEStepContext
from ace.loop.metadata import APPLIED, ARTIFACT, INSIGHTS, REFUSED
from ace.proof.leakage_guard import LeakageGuard
from ace.proof.trace_facts import KnownOfTask, known_of_task
from ace.protocols.observers import SkillChange, SkillProven, SkillsChanged, emit, is_observed
from ace.skillbook.store import AlreadyCommittedError, SampleKey
from ace.steps.recent_reflections import RecentReflections
from ace.steps.tail_keywords import TailOptions
from ace.steps.tail_settings import TailSettings
from ace.updates import UpdateBatch

if TYPE_CHECKING:
    from ace.proof.draft import ProofNote
    from ace.skill import Skill
    from ace.skillbook import Skillbook, UpdateReport
    from ace.updates import UpdateOperation

__all__ = ["ApplyStep", "learned_content", "used_skills"]

OMITTED: Final = "omitted_operations"
"""The key under which the first step that asks `ApplyStep.with_omitted` notes what would be omitted, and of which
batch."""

_UNVERIFIED: Final = "the answer was not verified, so it only leads to tags (learn_without_truth)"

logger = logging.getLogger(__name__)


class ApplyStep:
    """Applies the operations. Those that cannot be applied are skipped, which the skillbook logs.

    Operations that copy the right answer or a prompt, or seem to contain personal data or a secret, are skipped too.
    So is an ADD that says the same as a rejected skill. One that says the same as a pending skill changes that one
    instead: it becomes another source or, if it is not pending itself, makes the skill active.

    In a store, the tags, the operations and the progress of a sample are one transaction, under the `SampleKey` in
    `metadata["sample_key"]`, which runners set. A sample that the store already has is not written twice.

    Args:
        skillbook: The book to change.
        guard: Decides which operations are rejected.
        settings: The settings of the tail; by default the defaults.
        **options: Settings that replace those: max_adds, max_operations and learn_without_truth concern this step.
            Without learn_without_truth, all operations except TAG from an answer that its environment did not verify
            (`EnvironmentResult.verified`), and whose ground truth is not known, are skipped and reported.

    Raises:
        ValueError: `max_adds` or `max_operations` is below 1.
    """

    requires = frozenset({"skill_manager_output"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    @checked_arguments(TailOptions)
    def __init__(
        self,
        skillbook: Skillbook,
        *,
        guard: LeakageGuard | None = None,
        settings: TailSettings | None = None,
        **options: Unpack[TailOptions],
    ) -> None:
        self.skillbook = self.lane_key = skillbook
        self.guard = LeakageGuard() if guard is None else guard
        self.settings = settings = replace(settings or TailSettings(), **options)
        self.max_adds = settings.max_adds
        self.max_operations = settings.max_operations
        self.learn_without_truth = settings.learn_without_truth

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Apply the operations. If a later step needs the report, it is added to the metadata of the context."""
        if is_learned(ctx):
            return ctx
        batch = needed(ctx.skill_manager_output, "skill_manager_output", self)
        key = ctx.metadata.get("sample_key")
        problems = iter({**dict.fromkeys(range(len(batch.operations))), **self.omitted(ctx)}.values())
        progress = {
            "trace_id": "" if key is None else key.sample,
            "index": ctx.global_sample_index,
            "attempt": ctx.metadata.get("attempt", 0),
            "attempts": ctx.metadata.get("attempts", {}),
            **learned_content(ctx),
            **used_skills(ctx),
        }
        if asked := ctx.metadata.get("asked_cases"):
            progress["cases"] = asked
        notes: Sequence[ProofNote] = ctx.metadata.get("proofs", ())
        recent = ctx.metadata.get("recent_reflections")
        if isinstance(recent, RecentReflections) and isinstance(key, SampleKey) and ctx.reflection is not None:
            recent.record(key, ctx.metadata.get("attempt", 0), ctx.reflection)
        try:
            report = self.skillbook.apply_update(
                UpdateBatch(batch.reasoning, [self._placed(operation) for operation in batch.operations]),
                author=str(ctx.metadata.get("integration", "")),
                key=key if isinstance(key, SampleKey) else None,
                progress=json.dumps(progress),
                problem_with=lambda _: next(problems),  # asked once about each operation, in their order
            )
        except AlreadyCommittedError as error:
            logger.info("The operations are not applied a second time: %s", error)
        else:
            _tell(ctx, report)
            _tell_proofs(ctx, notes, batch.operations, report)
            if INSIGHTS in ctx.metadata or ARTIFACT in ctx.metadata:
                return ctx.replace(metadata={**ctx.metadata, APPLIED: report})
        return ctx

    def omitted(self, ctx: ACEStepContext) -> Mapping[int, str]:
        """Return the reasons for which operations of a sample are not applied, by their index in the batch.

        Args:
            ctx: The context of the sample, with its operations.
        """
        refused: Mapping[int, str] = ctx.metadata.get(REFUSED, {})
        return {**refused, **self._omitted(ctx)}

    def with_omitted(self, ctx: ACEStepContext) -> ACEStepContext:
        """Return a context from which `omitted` takes its answer, for the steps before this one that ask it.

        Args:
            ctx: The context of the sample, with its operations.
        """
        batch = ctx.skill_manager_output
        if ctx.metadata.get(OMITTED, (None, {}))[0] is batch is not None:
            return ctx
        omitted = (batch, self._omitted(ctx))
        return ctx.replace(metadata={**ctx.metadata, OMITTED: omitted})

    def _omitted(self, ctx: ACEStepContext) -> Mapping[int, str]:
        """Return the reasons for which operations are omitted, without those of a gate."""
        batch = needed(ctx.skill_manager_output, "skill_manager_output", self)
        noted_batch, noted = ctx.metadata.get(OMITTED, (None, {}))
        if noted_batch is batch:
            found: Mapping[int, str] = noted
            return found
        changes_skills = any(operation.content or not _has_type(operation, "TAG") for operation in batch.operations)
        known = known_of_task(ctx) if changes_skills else KnownOfTask()
        notes: Sequence[ProofNote] = ctx.metadata.get("proofs", ())
        unproven = {id(note.operation): note.reason for note in notes}
        tags_only = known.is_unverified and not self.learn_without_truth
        omitted: dict[int, str] = {}
        adds = operations = 0
        for index, operation in enumerate(batch.operations):
            problem = unproven.get(id(operation)) or self.guard.problem_with(
                operation, known.answers, feedback=known.feedback
            )
            if tags_only and not _has_type(operation, "TAG"):
                problem = _UNVERIFIED
            problem = problem or self._decided(operation)
            if problem is None and _has_type(operation, "ADD"):
                adds += 1
                if self.max_adds is not None and adds > self.max_adds:
                    problem = f"one answer may add at most {self.max_adds} skills (max_adds)"
            if problem is None and not _has_type(operation, "TAG"):
                operations += 1
                if self.max_operations is not None and operations > self.max_operations:
                    problem = f"one answer may make at most {self.max_operations} changes (max_operations)"
            if problem is not None:
                omitted[index] = problem
        return omitted

    def _decided(self, operation: UpdateOperation) -> str | None:
        """Return why an operation is omitted because of a decision about a skill that agents are not shown."""
        if _has_type(operation, "UPDATE") and operation.content:
            skill = self.skillbook.get_skill(operation.skill_id or "")
            if skill is not None and (skill.is_pending or skill.is_rejected):
                return f"the skill {skill.id!r} is {'pending' if skill.is_pending else 'rejected'}: {skill.reason}"
        if _has_type(operation, "ADD"):
            same = self._same(operation)
            if same is not None and same.is_rejected:
                return f"it says the same as the rejected skill {same.id!r}: {same.reason}"
            if same is not None and same.is_active:
                return f"it is pending and says the same as the skill {same.id!r}"
        return None

    def _placed(self, operation: UpdateOperation) -> UpdateOperation:
        """Return an ADD that says the same as a pending skill as an UPDATE of that skill."""
        same = self._same(operation) if _has_type(operation, "ADD") else None
        if same is None or not same.is_pending:
            return operation
        return replace(operation, type="UPDATE", skill_id=same.id, section="")

    def _same(self, operation: UpdateOperation) -> Skill | None:
        """Return the rejected or pending skill that says the same; for a pending operation also an active one."""
        from ace.deduplication.wording import stated_values, telling_words  # only needed if something is learned

        content = operation.content
        if not content:
            return None
        compared = [
            skill
            for skill in self.skillbook.skills(include_invalid=True)
            if skill.is_pending or skill.is_rejected or (operation.pending and skill.is_active)
        ]
        if not compared:
            return None
        words, values = telling_words(content), stated_values(content)
        return next(
            (
                skill
                for skill in compared
                if telling_words(skill.content) == words and stated_values(skill.content) == values
            ),
            None,
        )


def _has_type(operation: UpdateOperation, name: str) -> bool:
    type_: object = operation.type  # the constructor accepts any value
    return isinstance(type_, str) and type_.strip().upper() == name


def _tell(ctx: ACEStepContext, report: UpdateReport) -> None:
    """Emit which operations were applied, and which were skipped and why."""
    if not is_observed() or not (report.applied or report.skipped):
        return
    applied = tuple(SkillChange(done.operation.type, done.skill_id) for done in report.applied)
    skipped = tuple(
        SkillChange(str(left.operation.type), left.operation.skill_id or "", left.reason) for left in report.skipped
    )
    emit(SkillsChanged(run_of(ctx), str(ctx.metadata.get("trace_id", "")), applied, skipped))


def _tell_proofs(
    ctx: ACEStepContext, notes: Sequence[ProofNote], operations: Sequence[UpdateOperation], report: UpdateReport
) -> None:
    """Emit the results of the proofs of a sample."""
    if not is_observed() or not notes:
        return
    ids = {id(operations[done.index]): done.skill_id for done in report.applied}
    for note in notes:
        operation = note.operation
        emit(
            SkillProven(
                run_of(ctx),
                str(ctx.metadata.get("trace_id", "")),
                ids.get(id(operation), operation.skill_id or ""),
                False if note.reason else note.passed,
                note.before,
                note.after,
                note.retries,
                note.reason,
            )
        )


def learned_content(ctx: ACEStepContext) -> Mapping[str, object]:
    """Return what a store notes about the content of a sample: of a group, only the traces that were learned from.

    Args:
        ctx: The context of a sample that was learned.
    """
    note: Mapping[str, object] = ctx.metadata.get("content", {})
    if ctx.reflection is None or "members" not in note:
        return note
    failed_items = list_in(mapping_in(ctx.reflection.raw, "rr_trace"), "failed_items")
    failed = {item.get("index") for item in failed_items if isinstance(item, Mapping)}
    members = [digest for index, digest in enumerate(list_in(note, "members")) if index not in failed]
    return {**note, "members": members}


def used_skills(ctx: ACEStepContext) -> Mapping[str, list[str]]:
    """Return the ids of the skills that were `shown` and `cited`; empty if it is not known what the agent was shown.

    Without a retrieval, the agent saw the whole book, and `shown` is missing. For an agent that runs elsewhere, the
    metadata of the trace says what it was shown.

    Args:
        ctx: The context of the sample.

    Example:
        >>> from ace.context import ACEStepContext
        >>> from ace.outputs import AgentOutput
        >>> answer = AgentOutput(reasoning="", final_answer="", skill_ids=["maths-00001"])
        >>> used_skills(ACEStepContext(agent_output=answer, metadata={"shown_skill_ids": ("maths-00001",)}))
        {'cited': ['maths-00001'], 'shown': ['maths-00001']}
    """
    if ctx.agent_output is None:
        return _used_in_trace(ctx.trace)
    cited = {"cited": list(ctx.agent_output.skill_ids)}
    shown = ctx.metadata.get("shown_skill_ids")
    return cited if shown is None else {**cited, "shown": list(shown)}


def _used_in_trace(trace: object) -> Mapping[str, list[str]]:
    if not isinstance(trace, Mapping):
        return {}
    metadata = mapping_in(trace, "metadata")
    if "shown_skill_ids" not in metadata:
        return {}
    return {
        "cited": [str(id) for id in list_in(trace, "skill_ids")],
        "shown": [str(id) for id in list_in(metadata, "shown_skill_ids")],
    }
