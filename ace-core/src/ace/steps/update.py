"""`UpdateStep`: the skill manager turns a reflection into operations."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Unpack, cast

from ace._internal.arguments import checked_arguments, whole_number, with_method
from ace.calls.calling import (
    BLOCKING,
    ON_LOOP,
    Awaited,
    Calling,
    awaited_where,
    call_skill_manager,
    call_skill_manager_together,
    finished,
)
from ace.calls.model_calls import call_scope, current_call_scope, redactor_for
from ace.calls.sample_context import is_learned, model_calls_for, needed, run_of, stop_if_cancelled
from ace.calls.secrets import known_secrets, redact
from ace.cases import is_about_call, missing_values
from ace.context import ACEStepContext
from ace.loop.insight_steps import found_insights
from ace.pipeline import lane_queue
from ace.proof.trace_facts import known_of_task, names_in_batch, open_cases, question_of, redacted_case
from ace.protocols.errors import LLMCallError, UnusableAnswerError, encodable
from ace.redaction import Redactor
from ace.retrieval import words
from ace.skill import Evidence, InsightSource, SkillCase
from ace.skillbook import BookMark
from ace.skillbook.store import SampleKey
from ace.steps.proposals import Found, Group, Proposal, Proposals, conflicts, needs_proposal
from ace.steps.tail_keywords import TailOptions
from ace.steps.tail_settings import TailSettings, checked_sections, listed_section
from ace.updates import EVIDENCE_TRACES, UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.outputs import ReflectorOutput
    from ace.protocols.roles import SkillManagerLike, UpdatesTogetherLike
    from ace.steps.prove import ProveStep

__all__ = ["UpdateStep"]

_log = logging.getLogger(__name__)

_NOT_JUDGED: Final = "no one judged the answer that it was learned from"
_FIRST_OF_GROUP: Final = "the sample with which the group of this one begins"


class UpdateStep:
    """Asks the skill manager to turn the reflection into operations, and records the source of each.

    An operation gets the case that taught it, if there is one. If nothing but the model says that its text is right, it
    is pending (`UpdateOperation.pending`), except with `unproven="keep"`. The skill manager is not asked if `KnownStep`
    found that the skillbook already answers all cases of the sample, if `InsightStep` left all of its insights pending,
    or if the reflection found no error, no insight and no harmful skill in a run without cases.

    The step reads the skillbook in the lane in which other steps write it, so it sees what earlier samples taught. In
    the run of a runner, it can also prefetch proposals for samples that wait in the lane, so that these are ready when
    their turns come: in the same request (`reflections_per_call`), with concurrent requests (`max_workers`), or both.
    If a prefetched proposal conflicts with the current skillbook, because an operation concerns a skill that has
    changed since, or its text is a near duplicate of a new skill, the skill manager is asked again, about this sample
    alone. Each sample is committed separately, in the order of the input.

    The step never waits for further samples: a request contains the reflections that are ready. If the answer is not
    usable, or the server rejects the request, it is repeated with half as many reflections; if only the part about one
    reflection is not usable, the skill manager is asked about that reflection alone.

    If the step fails, the tags of the sample are kept: they are valid even if no skill is learned.

    Args:
        skill_manager: The skill manager; its `update_skills` may be `async def`.
        allow: The classes of sensitive text that are redacted neither in what is sent to the skill manager nor in the
            provenance and cases of skills; see `ace.redaction`. Inside a run, those of its `ApplyStep` apply.
        max_workers: The maximum number of concurrent requests. With 1, the default, nothing is requested before the
            turn of a sample; `TraceAnalyser.run(workers=...)` overrides it.
        proof: The step that proves the operations. It asks its first questions as soon as a proposal is prefetched.
        settings: The settings of the tail; by default the defaults.
        **options: Settings that replace those: provenance, sections and reflections_per_call concern this step. With
            the provenance `ids`, the operations have no cases, no justification and no evidence, and their source has
            no texts. reflections_per_call has no effect on a skill manager that makes no calls.

    Raises:
        ValueError: `provenance` is unknown, or a number is out of range.
        TypeError: `reflections_per_call` is above 1, and the skill manager lacks `update_skills_together`.

    Example:
        >>> from ace import LiteLLMClient, SkillManager
        >>> UpdateStep(SkillManager(LiteLLMClient("gpt-4o-mini")), reflections_per_call=8).reflections_per_call
        8
    """

    requires = frozenset({"reflection", "skillbook"})
    provides = frozenset({"skill_manager_output"})
    lane = "skillbook"
    max_workers = 1

    @checked_arguments(TailOptions)
    def __init__(
        self,
        skill_manager: SkillManagerLike,
        *,
        allow: Collection[str] = (),
        max_workers: int | None = None,
        proof: ProveStep | None = None,
        settings: TailSettings | None = None,
        **options: Unpack[TailOptions],
    ) -> None:
        self.skill_manager = skill_manager
        self.allow = frozenset([allow] if isinstance(allow, str) else allow)
        self.settings = settings = dataclasses.replace(settings or TailSettings(), **options)
        self.provenance = settings.provenance
        self.sections = checked_sections(settings.sections)
        if max_workers is not None:
            self.max_workers = whole_number("max_workers", max_workers)
        self.proof = proof
        self.reflections_per_call = settings.reflections_per_call
        if self.reflections_per_call > 1 and self._asks_model:
            advice = "for others, leave reflections_per_call at 1"
            with_method("skill_manager", skill_manager, "update_skills_together", advice=advice)
        # Guards the dictionary only, because overlapping runs share the step. What happens inside a run is guarded by
        # the lock of its `Proposals`.
        self._lock = threading.Lock()
        self._proposals: dict[str, Proposals] = {}  # by run

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step, depending on whether its skill manager is plain, asynchronous or both."""
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
        # Before the request, and not again after it: an answer that has been paid for is used.
        stop_if_cancelled()
        if not needs_proposal(ctx):
            return ctx.replace(skill_manager_output=UpdateBatch())
        proposal = await self._proposed(calling, ctx)
        operations = await self._operations(calling, ctx, proposal)
        return ctx.replace(skill_manager_output=UpdateBatch(proposal.output.update.reasoning, operations))

    async def _operations(self, calling: Calling, ctx: ACEStepContext, proposal: Proposal) -> list[UpdateOperation]:
        """Return the operations of a proposal with their sources and cases."""
        reflection = needed(ctx.reflection, "reflection", self)
        source = _source_of(ctx, proposal.question)
        secrets = known_secrets(getattr(self.skill_manager, "llm", None))
        operations = proposal.output.update.operations
        if self.sections:
            operations = [_with_listed_section(operation, self.sections) for operation in operations]
        names = await calling.function(partial(names_in_batch, ctx, proposal.redactor))
        found = found_insights(ctx)
        earlier = {} if found is None else found.sources
        evidence = (await calling.function(partial(known_of_task, ctx))).evidence
        operations = [_with_source(operation, source, reflection, names, earlier, evidence) for operation in operations]
        operations = _with_cases(operations, open_cases(ctx), reflection, proposal.redactor if names else None)
        operations = [self._with_status(operation) for operation in operations]
        if self.provenance == "ids":
            operations = [_without_trace(operation) for operation in operations if not _only_joins_cases(operation)]
        redacted = partial(_all_redacted, operations, secrets, proposal.redactor)
        has_cases = any(operation.cases for operation in operations)  # their texts may be of any length
        return await calling.function(redacted) if has_cases else redacted()

    def _with_status(self, operation: UpdateOperation) -> UpdateOperation:
        """Return the operation as pending if nothing but the model says that its text is right."""
        source = operation.insight_source
        kinds = {case.evidence for case in operation.cases} | ({source.evidence} if source is not None else set())
        says_something = operation.type in ("ADD", "UPDATE") and bool(operation.content)
        if not says_something or operation.pending or kinds - {"none"} or self.settings.unproven == "keep":
            return operation
        return dataclasses.replace(operation, pending=_NOT_JUDGED)

    @property
    def _asks_model(self) -> bool:
        return bool(getattr(self.skill_manager, "asks_model", True))

    async def _proposed(self, calling: Calling, ctx: ACEStepContext) -> Proposal:
        """Return the proposal for the sample in the lane, and prefetch those for the samples waiting behind it."""
        book = needed(ctx.skillbook, "skillbook", self)
        most = self.max_workers * self.reflections_per_call - 1
        queue = lane_queue()
        if not most or queue is None or not run_of(ctx) or not self._asks_model:
            alone = await self._asked(calling, ctx)
            return await self._asked(calling, ctx, again=True) if conflicts(alone, book) else alone
        proposals = self._proposals_of(run_of(ctx))
        # The group of this sample is settled before anything is prefetched, so that the samples behind it join its
        # request instead of getting one of their own.
        group = proposals.taken(ctx)
        begun = proposals.begun(ctx, queue) if group is None else None
        with proposals.asking_ahead(queue, most=most, requests=self.max_workers - 1):
            # A thread of the engine makes this request, or an earlier sample has made it. An error is raised here, at
            # the turn of the sample, as if it had been asked about just now.
            found: Found = {} if group is None else await calling.outcome(group.answer)
            key = _key_of(ctx)
            if key not in found:  # it has no group, or the group was too large
                group = begun or proposals.begun(ctx, queue)
                found = await self._asked_at_turn(calling, group)
            proposal = found[key]
            in_vain = group is not None and (len(found) < len(group.contexts) or found[key] is None)
            if proposal is None:
                proposal = await self._asked(calling, ctx)
            # Decided in the lane, where no other sample changes the book until `ApplyStep` has applied the proposal.
            is_old = conflicts(proposal, book)
            proposals.turn_ended(most, in_vain=in_vain or is_old)
            return await self._asked(calling, ctx, again=True) if is_old else proposal

    async def _asked_at_turn(self, calling: Calling, group: Group) -> Found:
        try:
            found = await self._asked_about(calling, group.contexts)
        # Also if the task is cancelled or Ctrl-C comes: the samples of the group wait for this future at their turns.
        except BaseException as error:
            group.answer.set_exception(error)
            raise
        group.answer.set_result(found)
        return found

    async def _asked_about(self, calling: Calling, contexts: Sequence[ACEStepContext], *, ahead: bool = False) -> Found:
        """Ask the skill manager about a group, unless an earlier call of the run has recorded the answer.

        Args:
            calling: How to call the skill manager.
            contexts: The contexts of the samples, at least one.
            ahead: Whether it is not yet the turn of the first one.
        """
        found: dict[SampleKey, Proposal | None] = {}
        left: list[ACEStepContext] = []
        for ctx in contexts:
            known = {} if self.reflections_per_call == 1 else await self._recorded(calling, ctx)
            if _key_of(ctx) in known:
                found.update(known)
            else:
                left.append(ctx)
        # If it is the turn of the first sample, it is not that of the ones behind it.
        ahead = ahead or (bool(left) and left[0] is not contexts[0])
        if len(left) > 1:
            found.update(await self._asked_together(calling, left, ahead=ahead))
        elif left:
            found[_key_of(left[0])] = await self._asked(calling, left[0], ahead=ahead)
        return found

    async def _asked_together(self, calling: Calling, contexts: Sequence[ACEStepContext], *, ahead: bool) -> Found:
        """Ask about several samples in one request, and halve their number until the answer is usable."""
        first = contexts[0]
        # Marked before the prompt is written: a change in between counts as unseen, which costs a request at worst.
        mark = needed(first.skillbook, "skillbook", self).mark()
        with model_calls_for(first, "SkillManager", allow=self.allow, version=mark.version, together=True):
            # Before the request, because the answer is recorded under the name of the first sample alone. If the
            # process is killed after that, this note is how the others find their part of the answer.
            await calling.function(partial(_note_group, [_key_of(ctx).sample for ctx in contexts]))
            while len(contexts) > 1:
                try:
                    return await self._one_answer(calling, contexts, mark)
                except UnusableAnswerError as error:
                    problem: Exception = error
                except LLMCallError as error:
                    if not error.concerns_one_request:
                        raise
                    problem = error
                _log.info("%s; retrying with half of the %d reflections", problem, len(contexts))
                # The others are missing in what is found, so they join new groups at their turns.
                contexts = contexts[: len(contexts) // 2]
        return {_key_of(first): await self._asked(calling, first, ahead=ahead)}

    async def _recorded(self, calling: Calling, ctx: ACEStepContext) -> Found:
        """Return the proposal for a sample that an earlier call of the run has recorded; empty if there is none.

        If the recorded answer is about this sample alone, the proposal is None, so that the sample is asked about alone
        and the answer replayed.
        """
        if await calling.function(partial(_has_recorded, ctx)):
            return {_key_of(ctx): None}
        for first in await calling.function(partial(_groups_of, ctx)):
            found = await self._divided(calling, ctx, first)
            if _key_of(ctx) in found:
                return found
        return {}

    async def _divided(self, calling: Calling, ctx: ACEStepContext, first: str) -> Found:
        """Return the part of a recorded answer to a group that is about a sample; empty if there is none.

        Args:
            calling: How to call the skill manager.
            ctx: The context of the sample.
            first: The sample with which the group begins.
        """
        mark = needed(ctx.skillbook, "skillbook", self).mark()
        with model_calls_for(ctx, "SkillManager", allow=self.allow):
            scope = dataclasses.replace(current_call_scope(), sample=first, attempts={})
            answers = scope.asked_by("SkillManager", together=True, version=mark.version).answers
            with call_scope(dataclasses.replace(scope, answers=answers)):
                # Only replays: when no recorded answer is left, the sample is asked about at its turn, not here.
                while answers is not None and await calling.function(answers.has_next):
                    try:
                        return await self._one_answer(calling, [ctx], mark)
                    except UnusableAnswerError:
                        if answers.samples == (_key_of(ctx).sample,):  # a new answer: the recorded ones do not match
                            break
        return {}

    async def _one_answer(self, calling: Calling, contexts: Sequence[ACEStepContext], mark: BookMark) -> Found:
        """Make one request about several samples, or replay a recorded answer, which may also be about others."""
        client = getattr(self.skill_manager, "llm", None)
        first = contexts[0]
        redactor = redactor_for(client)
        keys = [_key_of(ctx) for ctx in contexts]
        questions = [await calling.function(partial(_question_for_prompt, ctx, redactor)) for ctx in contexts]
        answers = current_call_scope().answers
        if answers is not None:
            answers.about([key.sample for key in keys])
        outputs = await call_skill_manager_together(
            calling,
            cast("UpdatesTogetherLike", self.skill_manager),
            reflections=[needed(ctx.reflection, "reflection", self) for ctx in contexts],
            skillbook=needed(first.skillbook, "skillbook", self),
            question_contexts=questions,
            progress=progress_of(first),
        )
        samples = [key.sample for key in keys]
        if answers is not None:
            samples = list(answers.samples)  # a recorded answer may be about other samples
            if answers.first_version is not None:
                mark = BookMark(answers.first_version)
        by_sample = {sample: outputs.get(number) for number, sample in enumerate(samples, start=1)}
        unknown = sorted(number for number in outputs if not 1 <= number <= len(samples))
        if unknown:
            _log.warning("the skill manager was asked about %d reflections; rejected: %s", len(samples), unknown)
        missing = [sample for sample, output in by_sample.items() if output is None]
        if missing:
            _log.info("no usable update for %s; asking about each alone", ", ".join(missing))
        found: dict[SampleKey, Proposal | None] = {}
        for key, question in zip(keys, questions, strict=True):
            if key.sample in by_sample:
                output = by_sample[key.sample]
                found[key] = None if output is None else Proposal(output, question, redactor, mark)
        return found

    async def _asked(
        self, calling: Calling, ctx: ACEStepContext, *, ahead: bool = False, again: bool = False
    ) -> Proposal:
        """Ask the skill manager about a sample.

        Args:
            calling: How to call the skill manager.
            ctx: The context of the sample.
            ahead: Whether it is not yet the sample's turn.
            again: Whether the first proposal conflicts with the current skillbook.
        """
        client = getattr(self.skill_manager, "llm", None)
        book = needed(ctx.skillbook, "skillbook", self)
        # At its own turn the sample holds the lane, so there is no later change to compare with.
        mark = book.mark() if ahead else None
        version = None if mark is None else mark.version
        with model_calls_for(ctx, "SkillManager", allow=self.allow, again=again, version=version):
            redactor = redactor_for(client)
            question = await calling.function(partial(_question_for_prompt, ctx, redactor))
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
                mark = BookMark(answers.first_version)  # an earlier call of the run has prefetched it
        return Proposal(output, question, redactor, mark)

    def _asked_ahead(self, contexts: Sequence[ACEStepContext]) -> Found:
        stop_if_cancelled()
        return finished(self._proposed_ahead(contexts))

    async def _proposed_ahead(self, contexts: Sequence[ACEStepContext]) -> Found:
        """Ask the skill manager about samples that wait for their turns, then the first questions of their proofs."""
        found = await self._asked_about(BLOCKING, contexts, ahead=True)
        for ctx in contexts if self.proof is not None else ():
            proposal = found.get(_key_of(ctx))
            if proposal is not None and self.proof is not None:
                operations = await self._operations(BLOCKING, ctx, proposal)
                await self.proof.ask_ahead(BLOCKING, ctx, operations)
        return found

    def _proposals_of(self, run: str) -> Proposals:
        with self._lock:
            proposals = self._proposals.get(run)
            if proposals is None:
                proposals = self._proposals[run] = Proposals(self._asked_ahead, together=self.reflections_per_call)
            return proposals

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Wait for the requests of a stopped run whose samples have had no turn.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was interrupted.
        """
        with self._lock:
            proposals = self._proposals.pop(current_call_scope().run_id, None)
        # They cannot be cancelled, and their answers are recorded for a resumed run. The caller releases the run after
        # this. Outside the lock, because it takes as long as the model does.
        if proposals is not None:
            proposals.wait()


def _key_of(ctx: ACEStepContext) -> SampleKey:
    key: SampleKey = ctx.metadata["sample_key"]
    return key


def _has_recorded(ctx: ACEStepContext) -> bool:
    """Return whether an earlier call of the run has recorded an answer about a sample alone."""
    with model_calls_for(ctx, "SkillManager"):
        answers = current_call_scope().answers
        return answers is not None and answers.has_next()


def _note_group(samples: Sequence[str]) -> None:
    """Record durably, for each sample of a group, the first one: the answer will be recorded under its name."""
    scope = dataclasses.replace(current_call_scope(), attempts={})
    for sample in samples[1:]:
        answers = dataclasses.replace(scope, sample=sample).asked_by("SkillManager group").answers
        if answers is not None:
            answers.keep(_FIRST_OF_GROUP, samples[0])


def _groups_of(ctx: ACEStepContext) -> list[str]:
    """Return the first samples of the groups in which earlier calls of the run may have asked about a sample."""
    found = [_key_of(ctx).sample]
    with model_calls_for(ctx, "SkillManager group"):
        answers = current_call_scope().answers
        while answers is not None and (first := answers.next(_FIRST_OF_GROUP)) is not None:
            found.append(first)
    return list(dict.fromkeys(found))


def _question_for_prompt(ctx: ACEStepContext, redactor: Redactor) -> str:
    """Return the redacted question. It may be of any length, so this must not block an event loop."""
    return encodable(redactor.redact(question_of(ctx)))


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


def _with_source(
    operation: UpdateOperation,
    source: InsightSource,
    reflection: ReflectorOutput,
    names: Mapping[str, str],
    earlier: Mapping[str, Sequence[str]],
    evidence: Mapping[str, Evidence],
) -> UpdateOperation:
    """Add the source: the trace, those of a group that show the learning, and earlier ones that `InsightStep` found.

    Args:
        source: The part of the source that is the same for all operations of the sample.
        names: The ids of the traces in a group, by the names that the reflector knows; empty for a single trace.
        earlier: The names of earlier traces, by learning.
        evidence: What the traces show, by the names of a group; the empty name is that of a single trace.
    """
    if operation.type not in ("ADD", "UPDATE") or operation.insight_source is not None:
        return operation
    learnings = {item.learning: item for item in reflection.extracted_learnings}
    nearest = _nearest(operation.content or "", list(learnings))
    learned = dataclasses.replace(
        source,
        error_identification=encodable(reflection.error_identification),
        learning_text=encodable(nearest or reflection.key_insight),
        evidence=evidence.get("", "none"),
    )
    before = earlier.get(nearest or "", ())
    if not operation.content or not (names or before):
        return dataclasses.replace(operation, insight_source=learned)
    if not names:
        metadata = {**operation.counters, EVIDENCE_TRACES: [learned.trace_id, *before]}
        return dataclasses.replace(operation, insight_source=learned, metadata=metadata)
    # Content that matches no learning of the reflector is attributed to all traces.
    shown = learnings[nearest].trace_ids if nearest in learnings else list(names)
    shown = [name for name in shown if name in names] or list(names)
    traces = [names[name] for name in shown]
    kinds: list[Evidence] = [evidence.get(name, "none") for name in shown]
    kind: Evidence = next((kind for kind in kinds if kind != "none"), "none")
    return dataclasses.replace(
        operation,
        insight_source=dataclasses.replace(learned, trace_id=traces[0], evidence=kind),
        metadata={**operation.counters, EVIDENCE_TRACES: traces},
    )


def _all_redacted(
    operations: Sequence[UpdateOperation], secrets: Sequence[str], redactor: Redactor
) -> list[UpdateOperation]:
    return [_redacted(operation, secrets, redactor) for operation in operations]


def _with_cases(
    operations: Sequence[UpdateOperation],
    cases: Sequence[SkillCase],
    reflection: ReflectorOutput,
    redactor: Redactor | None,
) -> list[UpdateOperation]:
    """Return the operations with the cases that taught them; each case goes to one operation.

    That is the operation whose nearest learning names the case, else one that contains its deciding values, else the
    one that shares the most words with it. A case about a call only goes to an operation that names something of it. In
    a group, a case only goes to an operation that its trace shows, and an operation may get the cases of several.

    Args:
        redactor: For a group, what replaced something in the names of the traces of the cases.
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
        about = [
            place
            for place, text in texts.items()
            if is_about_call(text, case) and (redactor is None or _is_shown(operations[place], case, redactor))
        ]
        place = _nearest_place(named or about, texts, case)
        if place is not None and (named or redactor is not None or place not in placed):
            placed.setdefault(place, []).append(case)
    return [
        dataclasses.replace(operation, cases=tuple(placed[place])) if place in placed else operation
        for place, operation in enumerate(operations)
    ]


def _is_shown(operation: UpdateOperation, case: SkillCase, redactor: Redactor) -> bool:
    """Return whether the trace of a case is among those that show what an operation says."""
    return case.trace_id in map(redactor.redact_name, operation.evidence_traces)


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
    metadata = operation.metadata
    if traces := operation.evidence_traces:
        metadata = {**metadata, EVIDENCE_TRACES: [redactor.redact_name(trace) for trace in traces]}
    return dataclasses.replace(
        operation,
        metadata=metadata,
        section=redact(operation.section, secrets),
        content=hidden(operation.content),
        justification=hidden(operation.justification),
        evidence=hidden(operation.evidence),
        insight_source=source,
        cases=tuple(case for learned in operation.cases if (case := redacted_case(learned, redactor)) is not None),
    )


def _without_trace(operation: UpdateOperation) -> UpdateOperation:
    """Return the operation without any text of the trace except the skill itself."""
    source = operation.insight_source
    if source is not None:
        source = dataclasses.replace(source, sample_question="", error_identification="", learning_text="")
    return dataclasses.replace(operation, justification=None, evidence=None, insight_source=source, cases=())


def _only_joins_cases(operation: UpdateOperation) -> bool:
    changes = operation.content, operation.section, operation.counters
    return operation.type == "UPDATE" and bool(operation.cases) and not any(changes)


def _nearest(content: str, learnings: Sequence[str]) -> str:
    """Return the learning that shares the most words with the content; a model may return them in any order."""
    wanted = set(words(content))
    return max(learnings, key=lambda learning: len(wanted & set(words(learning))), default="")


def _with_listed_section(operation: UpdateOperation, sections: Sequence[str]) -> UpdateOperation:
    if operation.type != "ADD" or not operation.content:
        return operation
    section = listed_section(operation.section or "", operation.content, sections)
    return operation if section == operation.section else dataclasses.replace(operation, section=section)
