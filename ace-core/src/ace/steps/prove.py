"""`ProveStep`, which tests each new skill on the case that it was learned from before it is kept."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Unpack

from ace._internal.arguments import checked_arguments, instance_of, whole_number, with_method
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, finished
from ace.calls.model_calls import call_scope, current_call_scope
from ace.calls.sample_context import is_learned, model_calls_for, needed, stop_if_cancelled
from ace.context import ACEStepContext
from ace.pipeline import PipelineCancelled
from ace.proof.asking import ProofSettings
from ace.proof.batch import BatchProofs
from ace.proof.final_test import FinalTest, asked_in, older_cases
from ace.proof.leakage_guard import LeakageGuard
from ace.proof.lookup import LOOKUP_WORKERS, lookup_workers
from ace.proof.prover import PROVE_ROLE, CaseProver
from ace.proof.trace_facts import known_of_task
from ace.protocols.errors import LLMError
from ace.protocols.roles import ShowsSkills
from ace.steps.tail_keywords import TailOptions
from ace.steps.tail_settings import TailSettings
from ace.updates import UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval
    from ace.skillbook import Skillbook

__all__ = ["CALLS_PER_SKILL", "ProveStep"]

logger = logging.getLogger(__name__)

CALLS_PER_SKILL: Final = 4
"""The maximum number of model calls for the proof of one skill, including the final test of its case."""


class ProveStep:
    """Tries each ADD and UPDATE that has a case on that case, before it is applied.

    The question of the case is asked with the new text alone. If the answer fails, or the text lacks a deciding value,
    the reflector is asked for a better text, and then the worked example is added to the text. If that fails too, the
    text of the role becomes a pending skill, which no agent is shown, with the reason.

    Then, cases with which the new text competes (`CaseProver.setting`) are asked with it. It breaks one of them only if
    that fails twice with it and passes twice without it: then the change gets its example, or the skill of the case
    does, and if neither helps the change is dropped; the history says why. A case that fails without the change too is
    recorded. At the end of the run, the cases with new competitors are asked once more, beside them.

    A case that nothing can judge is not asked. The first questions are asked ahead (`ask_ahead`), as many at once as
    there are workers; what depends on the order of the samples is asked in the lane.

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
            They share the calls of `calls_per_skill`. Those for which no call is left are part of the final test.
        calls_per_skill: The maximum number of calls for the proof of one skill, including the final test. Each case
            that fails with the change takes one more, and a change that breaks a case up to five more.
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
        if not self._may_be_applied(ctx):
            return ctx
        with model_calls_for(ctx, PROVE_ROLE, allow=self._allow()):
            workers = self.workers or lookup_workers(ctx)
            proofs = BatchProofs(self._proof_settings(), calling, ctx, workers)
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

    async def ask_ahead(self, calling: Calling, ctx: ACEStepContext, operations: Sequence[UpdateOperation]) -> None:
        """Ask the first questions about the operations of a sample that waits for its turn.

        The answers are remembered, so that they are not asked again at its turn. If a model cannot be reached, or the
        run is stopped, nothing is raised: at its turn, the sample asks the question again, and fails or not.

        Args:
            calling: How the agent is called.
            ctx: The context of the sample.
            operations: Its operations, with their cases.
        """
        if is_learned(ctx) or not self._may_be_applied(ctx):
            return
        with model_calls_for(ctx, PROVE_ROLE, allow=self._allow()):
            try:
                await BatchProofs(self._proof_settings(), calling, ctx, self.workers or lookup_workers(ctx)).ask_ahead(
                    operations
                )
            except (LLMError, PipelineCancelled) as error:
                logger.info("A question of a proof could not be asked ahead: %s", error)

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Ask the cases of the run again whose shown skills have changed since they were asked.

        Args:
            last_index: The `global_sample_index` of the last sample.
            interrupted: Whether the run was interrupted; then nothing is asked.
        """
        scope = current_call_scope()
        with self._lock:
            asked = self._asked.pop(scope.run_id, {})
            workers = self._workers_of_runs.pop(scope.run_id, self.workers or LOOKUP_WORKERS)
        book = self.skillbook
        if interrupted or not self.final_test or book is None:
            return
        # What earlier calls of a resumed run asked is only in the store. Each sample is noted there in the transaction
        # of its changes, so a note exists exactly if the skills of the sample do.
        asked = {**asked, **asked_in(book, scope.run_id)}
        older = older_cases(self.prover, book.skills(), asked, self.regression_cases)
        try:
            with call_scope(dataclasses.replace(scope, allow=scope.allow | self._allow()).asked_by(PROVE_ROLE)):
                FinalTest(self.prover, book, {**asked, **older}, last_index, workers).run()
        except PipelineCancelled as stopped:
            # Complete rounds are committed. A resumed run continues with the first incomplete one.
            logger.info("The final test was stopped: %s", stopped)
        except LLMError as error:
            # Everything is learned, and each skill was proven when it was added.
            logger.error("The final test of the run could not be finished: %s", error)

    def _proof_settings(self) -> ProofSettings:
        return ProofSettings(
            prover=self.prover,
            reflector=self.reflector,
            guard=self.guard,
            retries=self.retries,
            regression_cases=self.regression_cases,
            calls=max(1, self.calls_per_skill - int(self.final_test)),
            unproven=self.unproven,
        )

    def _may_be_applied(self, ctx: ACEStepContext) -> bool:
        return self.learn_without_truth or not known_of_task(ctx).is_unverified

    def _allow(self) -> frozenset[str]:
        return frozenset() if self.guard is None else frozenset(self.guard.allow)

    def _note_asked(self, asked: Mapping[str, str], workers: int) -> None:
        run_id = current_call_scope().run_id
        with self._lock:
            self._asked.setdefault(run_id, {}).update(asked)
            self._workers_of_runs[run_id] = workers


def _is_small(agent: object) -> bool:
    return isinstance(agent, ShowsSkills) or getattr(getattr(agent, "llm", None), "is_small_model", False) is True
