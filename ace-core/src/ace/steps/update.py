"""`UpdateStep`: the skill manager turns a reflection into operations."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ace.arguments import checked_class, one_of, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, call_skill_manager, finished
from ace.calls.model_calls import current_call_scope, redactor_for
from ace.calls.secrets import known_secrets, redact
from ace.cases import missing_values
from ace.context import ACEStepContext
from ace.pipeline import lane_queue
from ace.protocols.errors import attribute_of, encodable
from ace.redaction import Redactor
from ace.retrieval import words
from ace.skill import PROVENANCES, InsightSource, Provenance, SkillCase
from ace.skillbook import BookMark
from ace.steps.context_access import is_learned, model_calls_for, needed, run_of, stop_if_cancelled
from ace.steps.proposals import Proposal, Proposals, conflicts
from ace.steps.trace_cases import is_known, open_cases, redacted_case
from ace.updates import EVIDENCE_TRACES, UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.outputs import ReflectorOutput
    from ace.protocols.roles import SkillManagerLike

__all__ = ["UpdateStep"]


@checked_class
class UpdateStep:
    """Asks the skill manager to turn the reflection into operations, and records the source of each.

    An operation gets the case that taught it, if there is one. If `KnownStep` found that the skillbook already answers
    all cases of the sample, the skill manager is not asked.

    The step reads the skillbook in the lane in which other steps write it, so it sees what earlier samples taught. With
    `max_workers`, in the run of a runner, it also asks about the samples that wait behind the current one, so that
    their answers are there when their turns come. If such an answer does not fit the skillbook any more, because an
    operation concerns a skill that has changed since, or its text is a near duplicate of a new one, the skill manager
    is asked again.

    If the step fails, the tags of the sample are kept: they hold whether or not a skill results.

    Args:
        skill_manager: The skill manager; its `update_skills` may be `async def`.
        allow: The classes of sensitive text that are redacted neither in what is sent to the skill manager nor in the
            provenance and cases of skills; see `ace.redaction`. Inside a run, they are those of the guard of its
            `ApplyStep`.
        provenance: What is kept of the trace with the skill. With `ids`, the operations have no cases, no justification
            and no evidence, and their source has no texts.
        max_workers: About how many samples the skill manager is asked at once. With 1, the default, it is only asked
            about the one in the lane; `TraceAnalyser.run(workers=...)` sets another number.

    Raises:
        ValueError: `provenance` is unknown, or `max_workers` is below 1.
    """

    requires = frozenset({"reflection", "skillbook"})
    provides = frozenset({"skill_manager_output"})
    lane = "skillbook"
    max_workers = 1

    def __init__(
        self,
        skill_manager: SkillManagerLike,
        *,
        allow: Collection[str] = (),
        provenance: Provenance = "full",
        max_workers: int | None = None,
    ) -> None:
        self.skill_manager = skill_manager
        self.allow = frozenset(allow)
        one_of("provenance", provenance, PROVENANCES)
        self.provenance = provenance
        if max_workers is not None:
            self.max_workers = whole_number("max_workers", max_workers)
        self._lock = threading.Lock()
        self._proposals: dict[str, Proposals] = {}  # by run

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its skill manager is plain, asynchronous or both."""
        return awaited_where(self.skill_manager, "update_skills")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the batch of operations on the context."""
        return finished(self._updated(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the batch of operations on the context, without blocking a thread."""
        return await self._updated(ON_LOOP, ctx)

    async def _updated(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        if is_known(ctx):
            return ctx.replace(skill_manager_output=UpdateBatch())
        reflection = needed(ctx.reflection, "reflection", self)
        proposal = await self._proposed(calling, ctx)
        source = _source_of(ctx, proposal.question)
        secrets = known_secrets(getattr(self.skill_manager, "llm", None))
        update = proposal.output.update
        operations = _with_cases(update.operations, open_cases(ctx), reflection)
        names = await calling.function(partial(_names_in_batch, ctx, proposal.redactor))
        operations = [_with_source(operation, source, reflection, names) for operation in operations]
        if self.provenance == "ids":
            operations = [_without_trace(operation) for operation in operations if not _only_joins_cases(operation)]
        redacted = partial(_all_redacted, operations, secrets, proposal.redactor)
        has_cases = any(operation.cases for operation in operations)  # their texts may be of any length
        operations = await calling.function(redacted) if has_cases else redacted()
        return ctx.replace(skill_manager_output=UpdateBatch(update.reasoning, operations))

    async def _proposed(self, calling: Calling, ctx: ACEStepContext) -> Proposal:
        """Return what is proposed for the sample that is in the lane, and ask about those that wait behind it."""
        book = needed(ctx.skillbook, "skillbook", self)
        ahead = self.max_workers - 1
        queue = lane_queue()
        if not ahead or queue is None or not run_of(ctx) or not getattr(self.skill_manager, "asks_model", True):
            proposal = await self._asked(calling, ctx)
            return await self._asked(calling, ctx, again=True) if conflicts(proposal, book) else proposal
        proposals = self._proposals_of(run_of(ctx))
        answer = proposals.take(ctx)
        with proposals.asking_ahead(queue, ahead):
            proposal = await (self._asked(calling, ctx) if answer is None else calling.outcome(answer))
            in_vain = conflicts(proposal, book)
            proposals.turn_ended(ahead, in_vain=in_vain)
            return await self._asked(calling, ctx, again=True) if in_vain else proposal

    async def _asked(
        self, calling: Calling, ctx: ACEStepContext, *, ahead: bool = False, again: bool = False
    ) -> Proposal:
        """Ask the skill manager about a sample.

        Args:
            calling: How it is called.
            ctx: The context of the sample.
            ahead: Whether it is not yet the sample's turn.
            again: Whether the first proposal does not fit the skillbook any more.
        """
        client = getattr(self.skill_manager, "llm", None)
        book = needed(ctx.skillbook, "skillbook", self)
        mark = book.mark() if ahead else None
        version = None if mark is None else mark.version
        with model_calls_for(ctx, "SkillManager", allow=self.allow, again=again, version=version):
            redactor = redactor_for(client)
            # A question may be of any length, and redacting it must not block an event loop.
            question = encodable(await calling.function(partial(redactor.redact, question_of(ctx))))
            output = await call_skill_manager(
                calling,
                self.skill_manager,
                reflection=needed(ctx.reflection, "reflection", self),
                skillbook=book,
                question_context=question,
                progress=progress_of(ctx),
            )
            answers = current_call_scope().answers
            if answers is not None and answers.first_version is not None:
                mark = BookMark(answers.first_version)  # an earlier call of the run has asked ahead
        return Proposal(output, question, redactor, mark)

    def _asked_ahead(self, ctx: ACEStepContext) -> Proposal:
        stop_if_cancelled()
        return finished(self._asked(BLOCKING, ctx, ahead=True))

    def _proposals_of(self, run: str) -> Proposals:
        with self._lock:
            proposals = self._proposals.get(run)
            if proposals is None:
                proposals = self._proposals[run] = Proposals(self._asked_ahead)
            return proposals

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Wait for the requests of a stopped run whose samples have had no turn.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was interrupted.
        """
        with self._lock:
            proposals = self._proposals.pop(current_call_scope().run_id, None)
        if proposals is not None:
            proposals.wait()


def question_of(ctx: ACEStepContext) -> str:
    """Return the question of the sample, or else that of the trace; empty if neither has one."""
    question = attribute_of(ctx.sample, "question")
    if isinstance(question, str):
        return question
    from ace.roles.trace_reading import read_trace

    return read_trace(ctx.trace)["question"]


def progress_of(ctx: ACEStepContext) -> str:
    """Return the progress of the run, for the prompt.

    Example:
        >>> progress_of(ACEStepContext(epoch=2, total_epochs=3, step_index=4, total_steps=10))
        'epoch 2 of 3, sample 4 of 10'
    """
    total = "" if ctx.total_steps is None else f" of {ctx.total_steps}"
    return f"epoch {ctx.epoch} of {ctx.total_epochs}, sample {ctx.step_index}{total}"


def _source_of(ctx: ACEStepContext, question: str) -> InsightSource:
    """Return the part of the source that is the same for all operations of a sample."""
    return InsightSource(
        trace_id=str(ctx.metadata.get("trace_id", "")),
        sample_question=question,
        epoch=ctx.epoch,
        step=ctx.step_index,
        integration=str(ctx.metadata.get("integration", "")),
    )


def _names_in_batch(ctx: ACEStepContext, redactor: Redactor) -> dict[str, str]:
    """Return the ids of the traces in a batch, by the names that the reflector knows; empty for a single trace."""
    from ace.roles.trace_reading import shown_names, traces_in_batch

    batch = traces_in_batch(ctx.trace)
    if batch is None:
        return {}
    ids: Mapping[str, str] = ctx.metadata.get("trace_ids", {})
    return {shown: ids.get(name, name) for shown, name in shown_names(batch, redactor).items()}


def _with_source(
    operation: UpdateOperation, source: InsightSource, reflection: ReflectorOutput, names: Mapping[str, str]
) -> UpdateOperation:
    if operation.type not in ("ADD", "UPDATE") or operation.insight_source is not None:
        return operation
    learnings = {item.learning: item for item in reflection.extracted_learnings}
    nearest = _nearest(operation.content or "", list(learnings))
    learned = dataclasses.replace(
        source,
        error_identification=encodable(reflection.error_identification),
        learning_text=encodable(nearest or reflection.key_insight),
    )
    if not operation.content or not names:
        return dataclasses.replace(operation, insight_source=learned)
    # What no learning of the reflector says was found in all of them.
    shown = learnings[nearest].trace_ids if nearest in learnings else list(names)
    traces = [names[name] for name in shown if name in names] or list(names.values())
    return dataclasses.replace(
        operation,
        insight_source=dataclasses.replace(learned, trace_id=traces[0]),
        metadata={**operation.metadata, EVIDENCE_TRACES: traces},
    )


def _all_redacted(
    operations: Sequence[UpdateOperation], secrets: Sequence[str], redactor: Redactor
) -> list[UpdateOperation]:
    return [_redacted(operation, secrets, redactor) for operation in operations]


def _with_cases(
    operations: Sequence[UpdateOperation], cases: Sequence[SkillCase], reflection: ReflectorOutput
) -> list[UpdateOperation]:
    """Return the operations with the cases that taught them; each case goes to one operation.

    It goes to the one whose nearest learning names the case, else to one that contains its deciding values, else to the
    one that shares most words with it.
    """
    placed: dict[int, list[SkillCase]] = {}
    texts = {
        place: operation.content
        for place, operation in enumerate(operations)
        if operation.type in ("ADD", "UPDATE") and operation.content and not operation.cases
    }
    learnings = {item.learning: item.case_id for item in reflection.extracted_learnings}
    there = {case.id for operation in operations for case in operation.cases}
    for case in cases:
        if case.id in there:
            continue
        named = [place for place, text in texts.items() if learnings.get(_nearest(text, list(learnings))) == case.id]
        place = _nearest_place(named or list(texts), texts, case)
        if place is not None and (named or place not in placed):
            placed.setdefault(place, []).append(case)
    return [
        dataclasses.replace(operation, cases=tuple(placed[place])) if place in placed else operation
        for place, operation in enumerate(operations)
    ]


def _nearest_place(places: Sequence[int], texts: Mapping[int, str], case: SkillCase) -> int | None:
    """Return the index of the operation that is most likely about a case; None if none shares a word with it."""
    wanted = set(words(f"{case.question} {case.correction} {case.expected} {case.check.value}"))

    def nearness(place: int) -> tuple[bool, int]:
        return not missing_values(texts[place], case), len(wanted & set(words(texts[place])))

    best = max(places, key=nearness, default=None)
    return None if best is None or nearness(best)[1] == 0 else best


def _redacted(operation: UpdateOperation, secrets: Sequence[str], redactor: Redactor) -> UpdateOperation:
    """Return the operation without keys, and its source without personal data, because skills are shared and kept long.

    `ApplyStep` rejects an operation whose own text seems to contain personal data or an unknown secret.
    """

    def hidden(text: str | None) -> str | None:
        return None if text is None else redact(text, secrets)

    source = operation.insight_source
    if source is not None:
        source = dataclasses.replace(
            source,
            trace_id=redactor.redact_name(source.trace_id),
            sample_question=redactor.redact(source.sample_question),
            error_identification=redactor.redact(source.error_identification),
            learning_text=redactor.redact(source.learning_text),
        )
    metadata = dict(operation.metadata)
    if traces := operation.evidence_traces:
        metadata[EVIDENCE_TRACES] = [redactor.redact_name(each) for each in traces]
    return dataclasses.replace(
        operation,
        metadata=metadata,
        section=redact(operation.section, secrets),
        content=hidden(operation.content),
        justification=hidden(operation.justification),
        evidence=hidden(operation.evidence),
        insight_source=source,
        cases=tuple(case for each in operation.cases if (case := redacted_case(each, redactor)) is not None),
    )


def _without_trace(operation: UpdateOperation) -> UpdateOperation:
    """Return the operation without any text of the trace except the skill itself."""
    source = operation.insight_source
    if source is not None:
        source = InsightSource(source.trace_id, epoch=source.epoch, step=source.step, integration=source.integration)
    return dataclasses.replace(operation, justification=None, evidence=None, insight_source=source, cases=())


def _only_joins_cases(operation: UpdateOperation) -> bool:
    changes = operation.content, operation.section, operation.counters
    return operation.type == "UPDATE" and bool(operation.cases) and not any(changes)


def _nearest(content: str, learnings: Sequence[str]) -> str:
    """Return the learning that shares most words with the content; a model may return them in any order."""
    wanted = set(words(content))
    return max(learnings, key=lambda learning: len(wanted & set(words(learning))), default="")
