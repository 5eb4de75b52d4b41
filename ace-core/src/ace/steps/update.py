"""`UpdateStep`: has the skill manager turn a reflection into operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ace.arguments import checked_class, one_of
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, finished
from ace.calls.model_calls import redactor_for
from ace.calls.role_calls import call_skill_manager
from ace.calls.secrets import known_secrets, redact
from ace.cases import missing_values
from ace.context import ACEStepContext
from ace.protocols.errors import attribute_of, encodable
from ace.redaction import Redactor
from ace.retrieval import words
from ace.skill import PROVENANCES, InsightSource, Provenance, SkillCase
from ace.steps.context_access import is_learned, model_calls_for, needed, stop_if_cancelled
from ace.steps.trace_cases import is_known, open_cases, redacted_case
from ace.updates import UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.outputs import ReflectorOutput
    from ace.protocols.roles import SkillManagerLike

__all__ = ["UpdateStep"]


@checked_class
class UpdateStep:
    """Has the skill manager turn the reflection into operations, and notes on each where it comes from.

    An operation gets the case that taught it, if there is one. If `KnownStep` found that the skillbook answers all
    cases of the sample, the skill manager is not asked.

    It reads the skillbook in the same lane in which others write it, so it sees what earlier samples taught.
    If it fails, the tags that the sample gave stay: they are true whether or not a skill comes of it.

    Args:
        skill_manager: The skill manager; its `update_skills` may be `async def`.
        allow: The classes of sensitive text that are neither replaced in what the skill manager is sent nor in the
            provenance and cases of skills; see `ace.redaction`. Inside a run, they are those of the guard of its
            `ApplyStep`.
        provenance: What is kept of the trace beside the skill. With `ids`, the operations have no cases, no
            justification and no evidence, and their source has no texts.

    Raises:
        ValueError: There is no such provenance.
    """

    requires = frozenset({"reflection", "skillbook"})
    provides = frozenset({"skill_manager_output"})
    lane = "skillbook"
    max_workers = 1

    def __init__(
        self, skill_manager: SkillManagerLike, *, allow: Collection[str] = (), provenance: Provenance = "full"
    ) -> None:
        self.skill_manager = skill_manager
        self.allow = frozenset(allow)
        one_of("provenance", provenance, PROVENANCES)
        self.provenance = provenance

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: as its skill manager is plain, asynchronous or both."""
        return awaited_where(self.skill_manager, "update_skills")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the batch of operations on the context."""
        return finished(self._updated(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the batch of operations on the context, without a thread that waits for it."""
        return await self._updated(ON_LOOP, ctx)

    async def _updated(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        if is_known(ctx):
            return ctx.replace(skill_manager_output=UpdateBatch())
        reflection = needed(ctx.reflection, "reflection", self)
        client = getattr(self.skill_manager, "llm", None)
        with model_calls_for(ctx, "SkillManager", allow=self.allow):
            redactor = redactor_for(client)
            # A question may be of any length, and an event loop must not wait for it.
            question = encodable(await calling.function(partial(redactor.redact, question_of(ctx))))
            output = await call_skill_manager(
                calling,
                self.skill_manager,
                reflection=reflection,
                skillbook=needed(ctx.skillbook, "skillbook", self),
                question_context=question,
                progress=progress_of(ctx),
            )
        source = _source_of(ctx, question)
        secrets = known_secrets(client)
        operations = _with_cases(output.update.operations, open_cases(ctx), reflection)
        operations = [_with_source(operation, source, reflection) for operation in operations]
        if self.provenance == "ids":
            operations = [_without_trace(operation) for operation in operations if not _only_joins_cases(operation)]
        redacted = partial(_all_redacted, operations, secrets, redactor)
        has_cases = any(operation.cases for operation in operations)  # their texts may be of any length
        operations = await calling.function(redacted) if has_cases else redacted()
        return ctx.replace(skill_manager_output=UpdateBatch(output.update.reasoning, operations))


def question_of(ctx: ACEStepContext) -> str:
    """Return the question of the sample, or what the trace gives as one; empty if neither tells."""
    question = attribute_of(ctx.sample, "question")
    if isinstance(question, str):
        return question
    from ace.implementations.trace_reading import read_trace

    return read_trace(ctx.trace)["question"]


def progress_of(ctx: ACEStepContext) -> str:
    """Return how far the run has come, for the prompt.

    Example:
        >>> progress_of(ACEStepContext(epoch=2, total_epochs=3, step_index=4, total_steps=10))
        'epoch 2 of 3, sample 4 of 10'
    """
    total = "" if ctx.total_steps is None else f" of {ctx.total_steps}"
    return f"epoch {ctx.epoch} of {ctx.total_epochs}, sample {ctx.step_index}{total}"


def _source_of(ctx: ACEStepContext, question: str) -> InsightSource:
    """Return what is known of the trace, whatever was learned from it."""
    return InsightSource(
        trace_id=str(ctx.metadata.get("trace_id", "")),
        sample_question=question,
        epoch=ctx.epoch,
        step=ctx.step_index,
        integration=str(ctx.metadata.get("integration", "")),
    )


def _with_source(operation: UpdateOperation, source: InsightSource, reflection: ReflectorOutput) -> UpdateOperation:
    if operation.type not in ("ADD", "UPDATE") or operation.insight_source is not None:
        return operation
    learnings = [item.learning for item in reflection.extracted_learnings]
    learned = dataclasses.replace(
        source,
        error_identification=encodable(reflection.error_identification),
        learning_text=encodable(_nearest(operation.content or "", learnings) or reflection.key_insight),
    )
    return dataclasses.replace(operation, insight_source=learned)


def _all_redacted(
    operations: Sequence[UpdateOperation], secrets: Sequence[str], redactor: Redactor
) -> list[UpdateOperation]:
    return [_redacted(operation, secrets, redactor) for operation in operations]


def _with_cases(
    operations: Sequence[UpdateOperation], cases: Sequence[SkillCase], reflection: ReflectorOutput
) -> list[UpdateOperation]:
    """Return the operations with the cases that taught them, each case with one of them.

    That is the one whose nearest learning names the case. Otherwise it is one that holds the values which decide, or
    else the one that shares most words with the case.
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
    """Return the place of the operation that is most probably about a case; None if none shares a word with it."""
    wanted = set(words(f"{case.question} {case.correction} {case.expected} {case.check.value}"))

    def nearness(place: int) -> tuple[bool, int]:
        return not missing_values(texts[place], case), len(wanted & set(words(texts[place])))

    best = max(places, key=nearness, default=None)
    return None if best is None or nearness(best)[1] == 0 else best


def _redacted(operation: UpdateOperation, secrets: Sequence[str], redactor: Redactor) -> UpdateOperation:
    """Return the operation without keys, and its source without personal data: skills are shared, and kept for long.

    An operation whose own text seems to hold personal data, or an unknown secret, is rejected by `ApplyStep`.
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
    return dataclasses.replace(
        operation,
        section=redact(operation.section, secrets),
        content=hidden(operation.content),
        justification=hidden(operation.justification),
        evidence=hidden(operation.evidence),
        insight_source=source,
        cases=tuple(case for each in operation.cases if (case := redacted_case(each, redactor)) is not None),
    )


def _without_trace(operation: UpdateOperation) -> UpdateOperation:
    """Return the operation without any text of the trace but the skill itself."""
    source = operation.insight_source
    if source is not None:
        source = InsightSource(source.trace_id, epoch=source.epoch, step=source.step, integration=source.integration)
    return dataclasses.replace(operation, justification=None, evidence=None, insight_source=source, cases=())


def _only_joins_cases(operation: UpdateOperation) -> bool:
    changes = operation.content, operation.section, operation.metadata
    return operation.type == "UPDATE" and bool(operation.cases) and not any(changes)


def _nearest(content: str, learnings: Sequence[str]) -> str:
    """Return the learning that shares most words with the content: a model may return them in any order."""
    wanted = set(words(content))
    return max(learnings, key=lambda learning: len(wanted & set(words(learning))), default="")
