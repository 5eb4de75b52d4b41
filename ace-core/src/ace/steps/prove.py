"""`ProveStep`, which tests each new skill on the case that it was learned from before it is kept."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

from ace._internal.arguments import checked_arguments, instance_of, whole_number, with_method
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, call_reflector, finished
from ace.calls.model_calls import call_scope, current_call_scope
from ace.cases import missing_values, worked_example
from ace.cases.values import inverted_number, tokens
from ace.context import ACEStepContext
from ace.pipeline import PipelineCancelled
from ace.proofs import PROVE_ROLE, CaseOutcome, CaseProver
from ace.protocols.errors import LLMError
from ace.protocols.roles import ShowsSkills
from ace.retrieval import LexicalRanker
from ace.skill import Skill, SkillCase, join_cases
from ace.skillbook.store import AlreadyCommittedError, SampleKey
from ace.steps.context_access import is_learned, model_calls_for, needed, stop_if_cancelled
from ace.steps.known import KnownStep, case_holders, lookup_workers
from ace.steps.leakage_guard import LeakageGuard
from ace.steps.tail_keywords import TailOptions
from ace.steps.tail_settings import TailSettings
from ace.steps.trace_facts import holds_values, known_cases, known_of_task, sample_cases, values_to_hold, was_corrected
from ace.updates import UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval
    from ace.skillbook import Skillbook

__all__ = ["CALLS_PER_SKILL", "ProofNote", "ProveStep"]

logger = logging.getLogger(__name__)

CALLS_PER_SKILL: Final = 4
"""The maximum number of model calls for the proof of one skill, including the final test of its case."""
_CALLS_OF_RULE: Final = 3
"""The number of calls needed to ask with a rule alone, then in the book, and once more if it fails there."""
_ROUNDS: Final = 2
_KNOWN: Final = "known "


@dataclass(frozen=True, slots=True)
class ProofNote:
    """The outcome of the proof of one operation, for `ApplyStep`, which knows the id of a new skill."""

    operation: UpdateOperation
    """The operation in the batch."""
    passed: bool | None
    """Whether its case passes; None if it was not asked or could not be judged."""
    before: str
    """The answer without the operation."""
    after: str
    """The answer with it."""
    retries: int
    """The number of other texts tried."""
    reason: str = ""
    """Why the operation is dropped; empty if it is kept."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The result of trying one text of an operation."""

    text: str
    skills: Sequence[Skill]
    """The book with the operation."""
    skill: Skill
    """The skill that results from the operation."""
    passed: bool | None
    answer: str = ""
    """The last answer."""
    outcomes: Mapping[str, CaseOutcome] = field(default_factory=dict)
    """The outcomes of the cases that were asked, by id."""
    problem: str = ""
    """What to tell the reflector so that it writes a better text."""


class ProveStep:
    """Tries each ADD and UPDATE that has a case on that case, before it is applied.

    The question of the case is asked with the new text alone, then with the skills that would be shown with it. If an
    answer fails, or the text lacks a deciding value, the text becomes the correction with its worked example. Then,
    cases of other skills that have passed so far are asked again. The change breaks one of them only if it fails with
    the change and passes without it: then the change gets its example, or the skill of the case does, and if neither
    helps the change is dropped; the history says why. A case that fails without the change too has been broken by an
    earlier one; that is recorded, and the final test repairs it. At the end of the run, the cases whose shown skills
    have changed since then are asked once more.

    Args:
        agent: Answers the questions; its `generate` may be `async def`.
        skillbook: The book; required for the final test.
        environments: The environments for checks of kind `environment`, by name.
        retrieval: Chooses the skills that the agent sees, as for `AgentStep`.
        prover: Asks the questions; by default one that is created from the agent, the two arguments above and `judge`.
        reflector: Is asked for a better text when one fails.
        retries: How often it is asked for each operation; by default once, and never for a small model, which would
            give the same answer again.
        regression_cases: The maximum number of cases of other skills that are asked after a change, most similar first.
            They share the calls of `calls_per_skill`. Those for which no call is left are part of the final test if
            they belong to the run, or if the agent chooses its skills and a skill of the run is now shown with them.
            For an agent that sees the whole book, so is the case of the skill that is most similar to a new one.
        calls_per_skill: The maximum number of calls for the proof of one skill, including the final test. Each case
            that fails with the change takes one more, and a change that breaks a case up to three more.
        guard: Decides which texts will be rejected, so that their proofs are not paid for.
        workers: How many questions that do not depend on each other are asked at once: those of new skills alone, of
            several cases of one skill, of regression cases, and of the final test. By default as many as `KnownStep`
            looks up samples at once, which is `workers` of a run over recorded traces or else three; one for a small
            model, whose answers would vary.
        settings: The settings of the tail; by default the defaults.
        **options: Settings that replace those: judge, unproven, final_test and learn_without_truth concern this step.
            Without learn_without_truth, what unverified answers lead to is not proven, because it will not be applied.

    Raises:
        ValueError: A number is out of its range, or `unproven` is unknown.
    """

    requires = frozenset({"skill_manager_output", "skillbook"})
    provides = frozenset({"skill_manager_output"})
    lane = "skillbook"
    max_workers = 1

    @checked_arguments(TailOptions)
    def __init__(
        self,
        agent: AgentLike,
        *,
        skillbook: Skillbook | None = None,
        environments: Mapping[str, TaskEnvironment] | None = None,
        retrieval: Retrieval | None = None,
        prover: CaseProver | None = None,
        reflector: ReflectorLike | None = None,
        retries: int | None = None,
        regression_cases: int = 5,
        calls_per_skill: int = CALLS_PER_SKILL,
        guard: LeakageGuard | None = None,
        workers: int | None = None,
        settings: TailSettings | None = None,
        **options: Unpack[TailOptions],
    ) -> None:
        with_method("agent", agent, "generate")
        self.settings = settings = dataclasses.replace(settings or TailSettings(), **options)
        if prover is not None:
            instance_of("prover", prover, CaseProver)
        self.agent = agent
        self.prover = prover or CaseProver(agent, judge=settings.judge, environments=environments, retrieval=retrieval)
        self.skillbook = skillbook
        self.reflector = reflector
        self.retries = (0 if _is_small(agent) else 1) if retries is None else whole_number("retries", retries, least=0)
        self.regression_cases = whole_number("regression_cases", regression_cases, least=0)
        self.calls_per_skill = whole_number("calls_per_skill", calls_per_skill)
        self.unproven = settings.unproven
        self.guard = guard
        self.final_test = settings.final_test
        self.learn_without_truth = settings.learn_without_truth
        self.workers = (1 if _is_small(agent) else None) if workers is None else whole_number("workers", workers)
        # A step serves several runs at once: while one of them ends on the thread of its caller, samples of others pass
        # the lane. The lock guards both dictionaries.
        self._lock = threading.Lock()
        self._asked: dict[str, dict[str, str]] = {}  # by run: what was shown with each case when it was asked last
        self._workers_of_runs: dict[str, int] = {}
        if skillbook is not None:
            self.lane_key = skillbook

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its agent is plain, asynchronous or both."""
        return awaited_where(self.agent, "generate")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the operations that are to be applied to the context."""
        return finished(self._proven(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the operations that are to be applied to the context, without blocking a thread."""
        return await self._proven(ON_LOOP, ctx)

    async def _proven(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        batch = needed(ctx.skill_manager_output, "skill_manager_output", self)
        if not self.learn_without_truth and known_of_task(ctx).is_unverified:
            return ctx
        book = needed(ctx.skillbook, "skillbook", self).skills()
        with model_calls_for(ctx, PROVE_ROLE, allow=self._allow()):
            workers = self.workers or lookup_workers(ctx)
            proofs = _BatchProofs(self, calling, ctx, book, workers)
            await proofs.ask_ahead(batch.operations)
            # One after the other: each is tried in the book that the operations before it lead to.
            for operation in batch.operations:
                await proofs.prove(operation)
            # Last, so that a skill which the operations above have changed or removed is recognised.
            proofs.join_known()
        # Not reached if a proof was cancelled or failed. Then only the recorded answers remain, which the next attempt
        # replays, and the final test knows nothing of cases that never reached the book.
        self._note_asked(proofs.asked, workers)
        metadata = {**ctx.metadata, "proofs": tuple(proofs.notes), "asked_cases": proofs.asked}
        return ctx.replace(skill_manager_output=UpdateBatch(batch.reasoning, proofs.operations), metadata=metadata)

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Ask the cases of the run again whose shown skills have changed since they were asked.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was interrupted; then nothing is asked.
        """
        scope = current_call_scope()
        with self._lock:
            asked = self._asked.pop(scope.run_id, {})
            workers = self._workers_of_runs.pop(scope.run_id, self.workers or KnownStep.max_workers)
        book = self.skillbook
        if interrupted or not self.final_test or book is None:
            return
        # What earlier calls of a resumed run asked is only in the store. Each sample is noted there in the transaction
        # of its changes, so a note exists exactly if the skills of the sample do.
        asked = {**asked, **_asked_in(book, scope.run_id)}
        older = _older_cases(self.prover, book.skills(), asked, self.regression_cases)
        try:
            with call_scope(dataclasses.replace(scope, allow=scope.allow | self._allow()).asked_by(PROVE_ROLE)):
                _FinalTest(self.prover, book, {**asked, **older}, last_index, workers).run()
        except PipelineCancelled as stopped:
            # Complete rounds are committed. A resumed run continues with the first incomplete one.
            logger.info("The final test was stopped: %s", stopped)
        except LLMError as error:
            # Everything is learned, and each skill was proven when it was added.
            logger.error("The final test of the run could not be finished: %s", error)

    def _allow(self) -> frozenset[str]:
        return frozenset() if self.guard is None else frozenset(self.guard.allow)

    def _note_asked(self, asked: Mapping[str, str], workers: int) -> None:
        run_id = current_call_scope().run_id
        with self._lock:
            self._asked.setdefault(run_id, {}).update(asked)
            self._workers_of_runs[run_id] = workers


class _BatchProofs:
    """The proofs of the operations that one sample has led to, in their order.

    Invariant: `skills` is what the book will hold when the operations so far have been applied. Nothing else is
    written while the sample holds the lane.
    """

    def __init__(
        self, step: ProveStep, calling: Calling, ctx: ACEStepContext, book: Sequence[Skill], workers: int
    ) -> None:
        self._step = step
        self._workers = workers
        self._prover = step.prover
        self._calling = calling
        self._ctx = ctx
        self.skills: Sequence[Skill] = list(book)
        self._ids = {skill.id for skill in book}
        self.operations: list[UpdateOperation] = []
        self.notes: list[ProofNote] = []
        self.asked: dict[str, str] = {}
        """The fingerprint of what was shown with each case when it was last asked, by id; empty if it was not asked."""
        self._calls_left = 0
        self._most_calls = max(1, step.calls_per_skill - int(step.final_test))
        self._made = 0

    async def ask_ahead(self, operations: Sequence[UpdateOperation]) -> None:
        """Ask the first question of each operation, with its text alone, at once.

        These are the questions of their proofs that do not depend on what the other operations lead to. The prover
        remembers the outcomes, so `prove` does not ask them again.
        """
        if self._workers == 1 or self._most_calls < _CALLS_OF_RULE:
            return
        # With one worker nothing is gained, and below three calls `_attempt` does not ask a rule alone.
        values = Counter(frozenset(values_to_hold(operation.cases[0])) for operation in operations if operation.cases)
        works = []
        for operation in operations:
            text = operation.content or ""
            if (
                operation.type not in ("ADD", "UPDATE")
                or not text
                or not operation.cases
                or self._is_guarded(operation)
            ):
                continue
            case = operation.cases[0]
            is_unknown = operation.type == "UPDATE" and self._old(operation) is None
            # A second operation with the same values may only add its case to the skill of the first one.
            is_same = values[frozenset(values_to_hold(case))] > 1 or self._learned_meanwhile(operation) is not None
            if not is_unknown and not is_same and not _uncovered(text, case):
                _, skill = self._with(operation, text, ())
                works.append(partial(self._asked, case, _by_itself(skill)))
        # `prove` numbers the new skills again, so that their ids do not depend on what was asked ahead.
        self._made = 0
        if len(works) > 1:
            await self._calling.each(works, self._workers)

    async def prove(self, operation: UpdateOperation) -> None:
        """Prove an operation, and add it to `operations` in the form in which it is to be applied."""
        if operation.type == "REMOVE":
            self.skills = [skill for skill in self.skills if skill.id != operation.skill_id]
        # What `ApplyStep` will reject is passed on unproven, so that the history says why.
        if operation.type not in ("ADD", "UPDATE") or not operation.content or self._is_guarded(operation):
            self.operations.append(operation)
            return
        old = self._old(operation)
        if operation.type == "UPDATE" and old is None:
            self.operations.append(operation)  # the skill does not exist, which `ApplyStep` reports
            return
        if not operation.cases:
            if not operation.pending:
                self.skills, _ = self._with(operation, operation.content, ())
            self.operations.append(operation)
            return
        # Samples are reflected on concurrently, so an overlapping one may have taught the same. Only here, in the lane,
        # is the book current enough to tell.
        knows = self._learned_meanwhile(operation)
        if knows is not None:
            if not await self._generalised(operation, knows):
                self._join(knows, operation.cases)
            return
        await self._tried(operation, old)

    def join_known(self) -> None:
        """Add the cases whose answers `KnownStep` found in the skillbook to the skills that know them."""
        known = known_cases(self._ctx)
        for case in sample_cases(self._ctx):
            if case.id not in known:
                continue
            skill = next(
                (
                    known_skill
                    for known_skill in self.skills
                    if known_skill.id == known[case.id] and known_skill.is_active
                ),
                None,
            )
            if skill is None:
                logger.info("The skill %s, which knew case %s, has been removed since", known[case.id], case.id)
                if was_corrected(case):
                    section = known[case.id].rpartition("-")[0]
                    text = _with_example("", case)
                    self.operations.append(UpdateOperation("ADD", section=section, content=text, cases=(case,)))
                    self.asked[case.id] = ""
                continue
            answer, text = self._ctx.metadata.get("known_answers", {}).get(case.id, ("", skill.content))
            if text == skill.content:
                passed = self._prover.judged(case, True, answer)
                seen = self._ctx.metadata.get("known_seen", {}).get(case.id)
                self.asked[case.id] = seen or _seen_with_known(self._prover, case, skill, self.skills)
            else:
                # The skill had another text when it was asked, so the final test asks again.
                passed = case
                self.asked[case.id] = ""
            self.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=(passed,)))
            self.operations.append(UpdateOperation("TAG", skill_id=skill.id, metadata={"helpful": 1}))
            self.notes.append(ProofNote(self.operations[-2], True, case.wrong, passed.answer, 0))
            self.skills = _replaced(self.skills, skill.replace(cases=join_cases(skill.cases, (passed,))))

    async def _tried(self, operation: UpdateOperation, old: Skill | None) -> None:
        """Try the text of an operation, then other texts, and keep the first one that passes."""
        # The limit is per operation, so an expensive proof does not use up the calls of the next one.
        self._calls_left = self._most_calls
        text = operation.content or ""
        attempt = await self._attempt(operation, text, is_rule=True)
        retries = 0
        while attempt.passed is False and retries < self._step.retries and self._step.reflector is not None:
            better = await self._better_text(operation, attempt, retries)
            retries += 1
            if not better or better in (text, attempt.text) or self._is_guarded(operation, better):
                break
            attempt = await self._attempt(operation, better, is_rule=True)
        # The example comes last although it passes most often, because a rule also covers other tasks.
        fallback = _with_example(text, operation.cases[0])
        is_better = fallback != attempt.text and not self._is_guarded(operation, fallback)
        if is_better and (attempt.passed is False or self._is_untrusted(operation, attempt)):
            retries += 1
            attempt = await self._attempt(operation, fallback)
        if attempt.passed is False and self._step.unproven == "drop":
            self._drop(operation, attempt, retries, "the case that taught it fails with it")
            return
        if attempt.passed is False and self._step.unproven == "pending":
            self._leave_pending(operation, attempt, retries)
            return
        # Only a text that has not failed is worth the calls that look for regressions.
        if attempt.passed is not False:
            attempt, broken = await self._without_regression(operation, old, attempt, fallback)
            if broken:
                self._drop(operation, attempt, retries, broken)
                return
        self._keep(operation, old, attempt, text, retries)

    async def _generalised(self, operation: UpdateOperation, skill: Skill) -> bool:
        """Replace a skill that is just a correction with its example by the rule of a second case, if that passes."""
        if not any(worked_example(case) in skill.content for case in skill.cases):
            return False
        change = dataclasses.replace(operation, type="UPDATE", skill_id=skill.id, section=skill.section)
        if self._is_guarded(change):
            return False
        self._calls_left = self._most_calls
        text = operation.content or ""
        attempt = await self._attempt(change, text, is_rule=True)
        if attempt.passed is not True or await self._broken_by(change, skill, attempt) is not None:
            return False
        self._keep(change, skill, attempt, text, 0)
        return True

    def _is_untrusted(self, operation: UpdateOperation, attempt: _Attempt) -> bool:
        """Return whether a rule was not judged and comes from a small model, which distorts many rules."""
        was_judged = attempt.passed is not None
        return not was_judged and self._prover.shows_examples and was_corrected(operation.cases[0])

    async def _attempt(self, operation: UpdateOperation, text: str, *, is_rule: bool = False) -> _Attempt:
        """Try one text in the book. Check what a rule contains, and try it alone too if enough calls are left.

        As many cases as there are workers are asked at once, and no more after one that fails.
        """
        alone = is_rule and self._calls_left >= _CALLS_OF_RULE
        skills, skill = self._with(operation, text, operation.cases)
        passed: bool | None = True
        answer = ""
        outcomes: dict[str, CaseOutcome] = {}
        for cases in _parts(operation.cases, self._workers):
            problems = [_uncovered(text, case) if is_rule else "" for case in cases]
            if problems[0]:
                return _Attempt(text, skills, skill, False, outcomes=outcomes, problem=problems[0])
            covered = cases[: next((place for place, problem in enumerate(problems) if problem), len(cases))]
            # Alone first: a text that fails by itself is not tried in the book, which saves a call.
            last = dict[str, CaseOutcome]()
            if alone:
                last = {outcome.case.id: outcome for outcome in await self._outcomes(covered, _by_itself(skill))}
            in_book: list[SkillCase] = []
            for case in covered:
                shown = await self._calling.function(partial(self._prover.shown, case.question, skills))
                # If the agent is shown only this skill, the question in the book is the one that was just asked.
                if not alone or (last[case.id].passed is not False and [other.id for other in shown] != [skill.id]):
                    in_book.append(case)
            last |= {outcome.case.id: outcome for outcome in await self._outcomes(in_book, skills)}
            for case in covered:
                self.asked[case.id] = self._prover.fingerprint(case.question, skills)
            outcomes |= last
            for case in covered:
                answer = last[case.id].answer
                if last[case.id].passed is False:
                    return _Attempt(text, skills, skill, False, answer, outcomes, _problem_with(case, answer))
                if last[case.id].passed is None:
                    passed = None
            if len(covered) < len(cases):
                problem = problems[len(covered)]
                return _Attempt(text, skills, skill, False, outcomes=outcomes, problem=problem)
        return _Attempt(text, skills, skill, passed, answer, outcomes)

    async def _without_regression(
        self, operation: UpdateOperation, old: Skill | None, attempt: _Attempt, fallback: str
    ) -> tuple[_Attempt, str]:
        """Return an attempt that breaks no case that has passed so far, or the given one and the reason to drop it."""
        broken = await self._broken_by(operation, old, attempt)
        if broken is None:
            return attempt, ""
        # The example may restrict the change enough to keep both skills as they are. Only then is another skill
        # changed.
        text = fallback if worked_example(operation.cases[0]) in fallback else attempt.text
        if text != attempt.text and not self._is_guarded(operation, text):
            again = await self._attempt(operation, text)
            if again.passed is not False:
                outcome = await self._outcome(broken.case, again.skills)
                self.asked[broken.case.id] = self._prover.fingerprint(broken.case.question, again.skills)
                if outcome.passed is not False:
                    return again, ""
        repaired = await self._with_repaired(attempt, broken.case)
        if repaired is not None:
            return repaired, ""
        effect = f"with it, {broken.case.question!r} was answered {self._prover.hidden(broken.answer)!r}"
        return attempt, f"it breaks case {broken.case.id}: {effect}"

    async def _broken_by(self, operation: UpdateOperation, old: Skill | None, attempt: _Attempt) -> CaseOutcome | None:
        """Ask cases of similar skills that have passed so far, and return the outcome of the first that is broken.

        What they passed with may be shown no longer, so one that fails is asked without the change as well: only if it
        passes then has the change broken it.
        """
        # An UPDATE may break the cases of its own skill, which come first, so one is asked even if no call is left.
        most = min(self._step.regression_cases, max(self._calls_left, 0 if old is None else 1))
        own = {case.id for case in operation.cases}
        due: dict[str, str] = {}
        cases: list[SkillCase] = []
        for case in self._similar_cases(attempt.text, old):
            if len(cases) == most:
                break
            if case.id in own or case.id in due or case.last_result != "passed":
                continue
            after = self._prover.fingerprint(case.question, attempt.skills)
            if self._prover.fingerprint(case.question, self.skills) != after:
                due[case.id] = after
                cases.append(case)
        for part in _parts(cases, self._workers):
            # In the order of similarity, although they were asked at once: the first broken one decides.
            for outcome in await self._outcomes(part, attempt.skills):
                if outcome.passed is not False:
                    self.asked[outcome.case.id] = due[outcome.case.id]
                    continue
                without = await self._outcome(outcome.case, self.skills)
                if without.passed is not False:
                    return outcome
                self._note_failed(without)
        return None

    def _note_failed(self, outcome: CaseOutcome) -> None:
        """Record that a case which has passed before fails with the book as it is, whatever is learned now."""
        case = outcome.case
        logger.info("Case %s failed before this change: %r was answered %r", case.id, case.question, outcome.answer)
        self.asked[case.id] = ""  # the final test asks it, and gives its skill the example
        failed = self._prover.judged(case, False, outcome.answer)
        for skill in self._in_book(case):
            self.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=(failed,)))

    async def _with_repaired(self, attempt: _Attempt, broken: SkillCase) -> _Attempt | None:
        """Return the attempt with the worked example in the skill whose case it breaks, if the case then passes."""
        holders = [skill for skill in self._in_book(broken) if skill.id != attempt.skill.id and not skill.pinned]
        if len(holders) != 1:
            return None
        holder = holders[0]
        text = _with_more(self._prover, holder.content, holder, broken)
        change = UpdateOperation("UPDATE", skill_id=holder.id, content=text, cases=(broken,))
        if text == holder.content or self._is_guarded(change):
            return None
        skills = _replaced(attempt.skills, holder.replace(content=text))
        outcome = await self._outcome(broken, skills)
        if not outcome.passed:
            return None
        # Both skills change in the transaction of the sample, so no reader finds the case broken in between.
        passed = self._prover.judged(broken, True, outcome.answer)
        for case in holder.cases:
            self.asked[case.id] = ""  # the final test asks it with the new text
        self.asked[broken.id] = self._prover.fingerprint(broken.question, skills)
        self.operations.append(dataclasses.replace(change, cases=(passed,)))
        repaired = holder.replace(content=text, cases=join_cases(holder.cases, (passed,)))
        return dataclasses.replace(attempt, skills=_replaced(skills, repaired))

    def _in_book(self, case: SkillCase) -> list[Skill]:
        """Return the skills with a case that are in the book already, so that an operation can name them."""
        return [
            skill
            for skill in self.skills
            if skill.id in self._ids and any(known_case.id == case.id for known_case in skill.cases)
        ]

    def _similar_cases(self, text: str, old: Skill | None) -> list[SkillCase]:
        """Return the cases of the book: those of the changed skill, then those of other skills, the most similar first.

        Cases that share no word with it come last; an agent that sees the whole book may be misled by any skill.
        """
        with_cases = [skill for skill in self.skills if skill.cases and skill is not old]
        scores = LexicalRanker()(text, with_cases)
        order = sorted(range(len(with_cases)), key=lambda place: -scores[place])
        first = [] if old is None else [old]
        return [case for skill in (*first, *(with_cases[place] for place in order)) for case in skill.cases]

    async def _outcome(self, case: SkillCase, skills: Sequence[Skill]) -> CaseOutcome:
        (outcome,) = await self._outcomes([case], skills)
        return outcome

    async def _outcomes(self, cases: Sequence[SkillCase], skills: Sequence[Skill]) -> list[CaseOutcome]:
        """Ask the questions of different cases at once, with the same skills; the outcomes are in their order."""
        self._calls_left -= len(cases)
        return await self._calling.each([partial(self._asked, case, skills) for case in cases], self._workers)

    async def _asked(self, case: SkillCase, skills: Sequence[Skill]) -> CaseOutcome:
        stop_if_cancelled()
        return await self._prover.outcome_with(self._calling, case, skills)

    async def _better_text(self, operation: UpdateOperation, attempt: _Attempt, retry: int) -> str:
        """Ask the reflector for another text, and tell it the problem of this one."""
        reflector = self._step.reflector
        if reflector is None:
            return ""
        from ace.outputs import AgentOutput

        case = operation.cases[0]
        scope = current_call_scope()
        # A scope of its own, so that a resumed run replays the answer to exactly this retry.
        sample = f"{scope.sample}/case {case.id}/retry {retry + 1}"
        feedback = f"{case.correction}\n\nThe rule {attempt.text!r} was tried. {attempt.problem} Write a better rule."
        with call_scope(dataclasses.replace(scope, sample=sample).asked_by("Reflector")):
            reflection = await call_reflector(
                self._calling,
                reflector,
                question=case.question,
                agent_output=AgentOutput(reasoning="", final_answer=attempt.answer or case.wrong),
                skillbook=needed(self._ctx.skillbook, "skillbook", self._step),
                ground_truth=case.expected or None,
                feedback=feedback.strip(),
                trace={
                    "question": case.question,
                    "context": case.context,
                    "answer": attempt.answer or case.wrong,
                    "ground_truth": case.expected or None,
                    "feedback": feedback.strip(),
                },
            )
        return next((item.learning for item in reflection.extracted_learnings if item.learning.strip()), "")

    def _keep(self, operation: UpdateOperation, old: Skill | None, attempt: _Attempt, text: str, retries: int) -> None:
        passed = attempt.passed
        if passed is False and not was_corrected(operation.cases[0]):
            # If all texts failed, none is better than the one that the role wrote.
            skills, skill = self._with(operation, text, operation.cases)
            attempt = dataclasses.replace(attempt, text=text, skills=skills, skill=skill)
        cases = []
        for case in operation.cases:
            found = attempt.outcomes.get(case.id)
            if found is None:
                self.asked[case.id] = ""  # the final test asks it
            cases.append(case if found is None else self._prover.judged(case, found.passed, found.answer))
        # A new text resets the results of the older cases, except those that have passed with it.
        kept = (
            ()
            if old is None
            else tuple(
                self._prover.judged(case, True, case.answer)
                for case in old.cases
                if case.last_result == "passed" and self._was_asked_with(case, attempt.skills)
            )
        )
        metadata = dict(operation.metadata)
        if passed and operation.type == "ADD":
            metadata["helpful"] = max(1, _count(metadata.get("helpful")))
        for case in () if old is None else old.cases:
            if not self._was_asked_with(case, attempt.skills):
                self.asked[case.id] = ""  # the final test asks it with the new text
        done = dataclasses.replace(operation, content=attempt.text, cases=join_cases(kept, cases), metadata=metadata)
        self.operations.append(done)
        after = self._prover.hidden(attempt.answer)
        self.notes.append(ProofNote(done, passed, operation.cases[0].wrong, after, retries))
        proven = attempt.skill.replace(cases=join_cases(() if old is None else old.cases, done.cases))
        self.skills = _replaced(attempt.skills, proven)

    def _was_asked_with(self, case: SkillCase, skills: Sequence[Skill]) -> bool:
        """Return whether a case was asked with the texts that are shown with it now."""
        return self.asked.get(case.id) == self._prover.fingerprint(case.question, skills)

    def _drop(self, operation: UpdateOperation, attempt: _Attempt, retries: int, reason: str) -> None:
        for case in operation.cases:
            self.asked.pop(case.id, None)
        self.operations.append(operation)  # so that the history lists it as skipped
        wrong = operation.cases[0].wrong
        after = self._prover.hidden(attempt.answer)
        self.notes.append(ProofNote(operation, attempt.passed, wrong, after, retries, reason))

    def _leave_pending(self, operation: UpdateOperation, attempt: _Attempt, retries: int) -> None:
        """Pass the operation on with the text of the role, as one that agents are not shown."""
        for case in operation.cases:
            self.asked.pop(case.id, None)
        found = {case.id: attempt.outcomes.get(case.id) for case in operation.cases}
        cases = tuple(
            case if (outcome := found[case.id]) is None else self._prover.judged(case, outcome.passed, outcome.answer)
            for case in operation.cases
        )
        reason = "the case that taught it fails with it"
        done = dataclasses.replace(operation, cases=cases, pending=reason)
        self.operations.append(done)
        after = self._prover.hidden(attempt.answer)
        self.notes.append(ProofNote(done, False, operation.cases[0].wrong, after, retries))

    def _join(self, skill: Skill, cases: Sequence[SkillCase]) -> None:
        """Add cases to a skill that has the same deciding values; only the final test asks them."""
        for case in cases:
            self.asked[case.id] = ""
        self.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=tuple(cases)))
        self.skills = _replaced(self.skills, skill.replace(cases=join_cases(skill.cases, cases)))

    def _learned_meanwhile(self, operation: UpdateOperation) -> Skill | None:
        """Return a skill that an overlapping sample has added and whose case has the same deciding values."""
        if operation.type != "ADD" or "case_holders" not in self._ctx.metadata:
            return None
        for skill in self.skills:
            if all(self._is_new_holder(skill, case) for case in operation.cases):
                return skill
        return None

    def _is_new_holder(self, skill: Skill, case: SkillCase) -> bool:
        values = set(values_to_hold(case))
        return (
            was_corrected(case)
            and bool(values)
            and skill.id not in case_holders(self._ctx).get(case.id, ())
            and holds_values(skill, tuple(values))
            and any(set(values_to_hold(other)) == values for other in skill.cases)
            and not any(other.id == case.id for made in self.operations for other in made.cases)
        )

    def _with(self, operation: UpdateOperation, text: str, cases: Sequence[SkillCase]) -> tuple[Sequence[Skill], Skill]:
        """Return the book with an operation applied, and the skill that results from it."""
        old = self._old(operation)
        if old is not None:
            changed = old.replace(content=text, section=operation.section or old.section)
            changed = changed.replace(cases=join_cases(old.cases, cases))
            return _replaced(self.skills, changed), changed
        self._made += 1
        added = Skill(f"new-{self._made:05}", operation.section, text, cases=tuple(cases))
        return [*self.skills, added], added

    def _old(self, operation: UpdateOperation) -> Skill | None:
        if operation.type != "UPDATE":
            return None
        return next((skill for skill in self.skills if skill.id == operation.skill_id), None)

    def _is_guarded(self, operation: UpdateOperation, text: str | None = None) -> bool:
        """Return whether the guard of `ApplyStep` will reject an operation."""
        guard = self._step.guard
        if guard is None:
            return False
        known = known_of_task(self._ctx)
        changed = operation if text is None else dataclasses.replace(operation, content=text)
        return guard.problem_with(changed, known.answers, feedback=known.feedback) is not None


class _Repair(NamedTuple):
    """What a round of the final test leads to for one skill."""

    skill: Skill
    """The skill as it was asked."""
    operations: Sequence[UpdateOperation]
    """Changes of its text, and skills that are made from its cases."""
    results: Sequence[SkillCase] = ()
    """The results to record, if its text does not change."""
    moved: Sequence[str] = ()
    """The ids of the cases that have moved into skills of their own."""


class _FinalTest:
    """The last test of a run: what was learned late may break what was learned early.

    Invariant: each round is one version of the book, committed under a key of its own, so that a resumed run continues
    the test at the right round.

    Args:
        prover: Asks the questions.
        asked: The fingerprint of what was shown with each case of the run when it was last asked, by id.
        last_index: The `global_sample_index` of the last sample.
        workers: How many questions are asked at once.
    """

    def __init__(
        self, prover: CaseProver, book: Skillbook, asked: Mapping[str, str], last_index: int, workers: int
    ) -> None:
        self._prover = prover
        self._workers = workers
        self._last_index = last_index
        self._book = book
        self._asked = dict(asked)
        self._outcomes: dict[str, CaseOutcome] = {}
        """The outcome of each case in this round, because two skills may have the same case."""

    def run(self) -> None:
        """Ask the cases, and add the examples of those that fail; then ask once more what that has changed."""
        for number in range(1, _ROUNDS + 1):
            # After a kill, rounds that are in the store are not repeated, and this one begins with the book they left.
            key = _round_key(number)
            store = self._book.store
            if key is not None and store is not None and store.committed_version(key):
                continue
            if not self._round(key, number):
                return

    def _round(self, key: SampleKey | None, number: int) -> bool:
        """Make one round. Returns whether a text has changed, so that another round is due."""
        skills = self._book.skills()
        self._ask(skills, number)
        repairs = [repair for skill in skills if (repair := self._repair_of(skill, number)) is not None]
        if not repairs:
            return False
        # Asking takes minutes, and `end_run` holds no lane: others may have written meanwhile. Compared right before
        # writing.
        kept = self._without_edited(repairs)
        batch = UpdateBatch(
            "The final test of the run.", [operation for repair in kept for operation in repair.operations]
        )
        note = json.dumps({"final_test": number, "index": self._last_index + number, "cases": self._asked})
        try:
            # One transaction for the results, the new texts and the note that the round is done: a kill leaves all or
            # nothing.
            with self._book.deferred_commits(author="proof"):
                self._book.note_results(
                    {repair.skill.id: repair.results for repair in kept},
                    contents={repair.skill.id: repair.skill.content for repair in kept},
                )
                self._book.apply_update(batch, author="proof", key=key, progress=None if key is None else note)
        except AlreadyCommittedError as error:
            logger.info("The results of the final test are not written a second time: %s", error)
        # Last, so that a case that moves into a skill of its own is in two skills for a moment, and always in one.
        for repair in kept:
            if repair.moved:
                self._book.remove_cases(repair.skill.id, repair.moved)
        return len(kept) < len(repairs) or any(operation.content for operation in batch.operations)

    def _repair_of(self, skill: Skill, number: int) -> _Repair | None:
        """Return what the outcomes of a round lead to for a skill; None if none of its cases was asked."""
        results: list[SkillCase] = []
        failed: list[CaseOutcome] = []
        for case in skill.cases:
            outcome = self._outcomes.get(case.id)
            if outcome is None or not self._is_due(case, number):
                continue
            results.append(self._prover.judged(case, outcome.passed, outcome.answer))
            if outcome.passed is False:
                failed.append(outcome)
        return self._repaired(skill, results, failed) if results else None

    def _without_edited(self, repairs: Sequence[_Repair]) -> list[_Repair]:
        """Remove what concerns skills that a person or another process has changed while the cases were asked.

        The answers say nothing about their new texts, which must not be overwritten; the next round asks with them.
        """
        self._book.refresh()
        kept: list[_Repair] = []
        for repair in repairs:
            if _is_unedited(repair.skill, self._book.get_skill(repair.skill.id)):
                kept.append(repair)
                continue
            logger.info("Skill %s was edited during the final test, so its results are ignored", repair.skill.id)
            self._asked |= {case.id: "" for case in repair.skill.cases if case.id in self._asked}
        return kept

    def _is_due(self, case: SkillCase, number: int) -> bool:
        """Return whether a case takes part in a round."""
        # An agent that sees the whole book sees every change, so cases that passed are not asked again.
        return number == 1 or case.last_result != "passed" or self._prover.chooses

    def _ask(self, skills: Sequence[Skill], number: int) -> None:
        """Ask the cases of a round, except those that have already been asked with the same skills."""
        due: dict[str, tuple[SkillCase, str]] = {}
        for skill in skills:
            for case in skill.cases:
                before = self._asked.get(case.id)
                if before is None or case.id in due or not self._is_due(case, number):
                    continue
                if before.startswith(_KNOWN):
                    seen = _seen_with_known(self._prover, case, skill, skills)
                else:
                    seen = self._prover.fingerprint(case.question, skills)
                if before != seen:
                    due[case.id] = case, seen
        self._outcomes.clear()

        async def asked(case: SkillCase) -> CaseOutcome | None:
            return self._outcome(case, skills)

        # `end_run` is called on a thread that may block, for `arun` too, so the agent is called in the plain way. If a
        # question is cancelled, nothing of the round is recorded, because the loop below does not begin.
        works = [partial(asked, case) for case, _ in due.values()]
        for (case, seen), outcome in zip(due.values(), finished(BLOCKING.each(works, self._workers)), strict=True):
            if outcome is not None:
                self._asked[case.id] = seen
                self._outcomes[case.id] = outcome

    def _outcome(self, case: SkillCase, skills: Sequence[Skill]) -> CaseOutcome | None:
        """Return the outcome of a case now; None if the agent or an environment failed."""
        stop_if_cancelled()
        try:
            return self._prover.outcome(case, skills)
        except (LLMError, PipelineCancelled):
            raise
        except Exception:
            # Agents and environments of users may raise anything, and what the run has learned is already written.
            logger.exception("The final test could not ask %r", case.question)
            return None

    def _repaired(self, skill: Skill, results: Sequence[SkillCase], failed: Sequence[CaseOutcome]) -> _Repair:
        """Add the examples of failing cases to a skill, or make skills of their own for the cases that have theirs."""
        text = skill.content
        own: list[SkillCase] = []
        for outcome in failed:
            better = _with_more(self._prover, text, skill, outcome.case)
            if better != text:
                text = better
            elif len(skill.cases) > 1 and worked_example(outcome.case):
                own.append(outcome.case)
        if text != skill.content:
            # A new text resets the results, so failed cases are asked again in the next round.
            kept_cases = join_cases(skill.cases, results)
            return _Repair(skill, [UpdateOperation("UPDATE", skill_id=skill.id, content=text, cases=kept_cases)])
        operations: list[UpdateOperation] = []
        if own and len(own) == len(skill.cases):
            # The skill keeps its first case only. Without any, its text would be unproven and could mislead.
            kept = own.pop(0)
            first = worked_example(skill.cases[0])
            text = _with_example((skill.content.partition(first)[0] if first else skill.content).strip(), kept)
            operations.append(UpdateOperation("UPDATE", skill_id=skill.id, content=text, cases=(kept,)))
        moved = [case.id for case in own]
        left = [] if operations else [case for case in results if case.id not in moved]
        operations += [self._as_own_skill(skill, case) for case in own]
        return _Repair(skill, operations, left, moved)

    def _as_own_skill(self, skill: Skill, case: SkillCase) -> UpdateOperation:
        """Return the operation that makes a skill from a case; the case is asked once, with that skill in the book."""
        content = _with_example(skill.content, case)
        made = Skill("new-00001", skill.section, content, cases=(case,))
        outcome = self._prover.outcome(case, [*self._book.skills(), made])
        result = self._prover.judged(case, outcome.passed, outcome.answer)
        return UpdateOperation("ADD", section=skill.section, content=content, cases=(result,))


def _seen_with_known(prover: CaseProver, case: SkillCase, skill: Skill, skills: Sequence[Skill]) -> str:
    """Return the fingerprint of what was shown with a case that a skill already knew.

    For an agent that sees the whole book, any new skill would change it. Such a case is asked again only if its skill
    changes, so that a trace that teaches nothing new costs one call.
    """
    if prover.chooses:
        return prover.fingerprint(case.question, skills)
    return _KNOWN + prover.fingerprint(case.question, [skill])


def _asked_in(book: Skillbook, run_id: str) -> dict[str, str]:
    """Return what a store has recorded about the cases of a run, for a resumed run."""
    if book.store is None or not run_id:
        return {}
    asked: dict[str, str] = {}
    notes = [json.loads(row.note) for row in book.store.progress(run_id)]
    for note in sorted(notes, key=lambda note: note.get("index", 0)):
        asked.update(note.get("cases", {}))
    return asked


def _older_cases(prover: CaseProver, skills: Sequence[Skill], asked: Mapping[str, str], most: int) -> dict[str, str]:
    """Return the cases of earlier runs that a skill of this run may have broken, marked as not asked.

    The proof of the skill may have had no call left for them. An agent that sees the whole book is shown every skill
    with every case, so only the case of the most similar skill is returned, unless the proof has asked it.
    """
    if not most:
        return {}
    found: dict[str, str] = {}
    older = [skill for skill in skills if any(_may_be_broken(case, asked) for case in skill.cases)]
    passed = [skill for skill in skills if any(case.last_result == "passed" for case in skill.cases)]
    ranker = LexicalRanker()
    for new in skills:
        if not any(case.id in asked for case in new.cases):
            continue
        if prover.chooses:
            nearest = ranker.best(new.content, [skill for skill in older if skill.id != new.id], most)
        else:
            nearest = ranker.best(new.content, [skill for skill in passed if skill.id != new.id], 1)
        for skill in nearest:
            cases = [case for case in skill.cases if _may_be_broken(case, asked) and new.created_at > case.last_run_at]
            if not prover.chooses:
                found |= {case.id: "" for case in cases[:1]}
                continue
            for case in cases:
                if any(shown.id == new.id for shown in prover.shown(case.question, skills)):
                    found[case.id] = ""
    return found


def _may_be_broken(case: SkillCase, asked: Mapping[str, str]) -> bool:
    return case.id not in asked and case.last_result == "passed"


def _round_key(number: int) -> SampleKey | None:
    scope = current_call_scope()
    if not (scope.run_id and scope.sample):
        return None
    return SampleKey(scope.run_id, scope.epoch, f"{scope.sample}/proof {number}")


def _with_example(text: str, case: SkillCase) -> str:
    """Return the correction with its worked example or, if no person corrected the case, the text with it."""
    example = worked_example(case)
    said = " ".join(case.correction.split()) if was_corrected(case) else text
    return said if example in said else f"{said} {example}"


def _with_more(prover: CaseProver, text: str, skill: Skill, case: SkillCase) -> str:
    """Return the text of a skill with the example of a failing case; the same text if it already has it."""
    if worked_example(case) in text:
        return text
    if prover.shows_examples and skill.cases[0].id == case.id and was_corrected(case):
        # The agent saw the example, so the rule is what misleads it.
        return _with_example(text, case)
    return f"{text} {worked_example(case)}"


def _uncovered(text: str, case: SkillCase) -> str:
    """Describe what a rule lacks, or what it contains that only applies to this case; empty if neither is true."""
    if not was_corrected(case):
        return ""
    if missing := missing_values(text, case):
        return f"It lacks {', '.join(missing)}."
    if number := inverted_number(text, case):
        return f"It gives the wrong answer for its condition on {number}."
    said = {word.lower() for word in tokens(case.correction)}
    names = [word for word in tokens(case.question)[1:] if word[:1].isupper() and word[1:2].islower()]
    answer = [word for word in tokens(case.expected) if any(character.isdigit() for character in word)]
    in_text = {word.lower() for word in tokens(text)}
    if quoted := [word for word in (*names, *answer) if word.lower() in in_text - said]:
        return f"It contains {', '.join(quoted)}, which only applies to this case."
    return ""


def _problem_with(case: SkillCase, answer: str) -> str:
    right = case.expected or " ".join(case.check.value.splitlines())
    return f"With it the task was answered {answer!r}; right is {right!r}."


def _by_itself(skill: Skill) -> list[Skill]:
    """Return a skill as the only one of a book, without its cases. A new one has the same id whenever it is tried."""
    id = "new-00001" if skill.id.startswith("new-") else skill.id
    return [skill.replace(id=id, cases=())]


def _parts(cases: Sequence[SkillCase], size: int) -> list[Sequence[SkillCase]]:
    """Return the cases in parts of at most this size."""
    return [cases[place : place + size] for place in range(0, len(cases), size)]


def _is_unedited(asked: Skill, now: Skill | None) -> bool:
    """Return whether a skill still has the text and the cases that were asked."""
    if now is None or not now.is_active or now.content != asked.content:
        return False
    return {case.id for case in asked.cases} <= {case.id for case in now.cases}


def _replaced(skills: Sequence[Skill], changed: Skill) -> list[Skill]:
    return [changed if skill.id == changed.id else skill for skill in skills]


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _is_small(agent: object) -> bool:
    return isinstance(agent, ShowsSkills) or getattr(getattr(agent, "llm", None), "is_small_model", False) is True
