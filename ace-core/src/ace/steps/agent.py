"""The steps in the foreground of a live run: the agent answers, and an environment judges the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, call_agent, call_environment, finished
from ace.calls.sample_context import is_learned, model_calls_for, needed, run_of
from ace.context import ACEStepContext, SelectedSkills
from ace.protocols.errors import EmptyAnswerError
from ace.protocols.observers import AnswerEvaluated, emit, is_observed
from ace.protocols.roles import ShowsSkills
from ace.skill import CaseCheck
from ace.steps.recent_reflections import recent_reflections_for
from ace.traces import AnswerTrace

if TYPE_CHECKING:
    from ace.context import ACESample, SkillbookView
    from ace.environments import Sample, TaskEnvironment
    from ace.outputs import AgentOutput
    from ace.protocols.roles import AgentLike, Retrieval

__all__ = ["AgentStep", "EvaluateStep", "answer_trace"]


@checked_class
class AgentStep:
    """Asks the agent the question of the sample, with the skills.

    In a run with a `reflection_window`, the agent also receives the most recent reflections, as `recent_reflections`.

    Args:
        agent: The agent; its `generate` may be `async def`.
        retrieval: Chooses the skills that the agent sees; by default it sees the whole book, or what it chooses itself
            (`ace.protocols.ShowsSkills`). The ids of chosen skills are in `metadata["shown_skill_ids"]`.
        empty_counts: Whether an empty answer counts as an answer; by default it is an error.
        answers: How many times the agent is asked the question. The first answer is the `agent_output`; the others are
            `further_answers`, for an environment that compares them (`TaskEnvironment.further_answers`).

    Raises:
        ValueError: `answers` is below 1.
    """

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"agent_output"})

    def __init__(
        self, agent: AgentLike, *, retrieval: Retrieval | None = None, empty_counts: bool = False, answers: int = 1
    ) -> None:
        self.agent = agent
        self.retrieval = retrieval
        self.empty_counts = empty_counts
        self.answers = whole_number("answers", answers, of="answers")

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its agent is plain, asynchronous or both."""
        return awaited_where(self.agent, "generate")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the answer to the context."""
        return finished(self._answered(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the answer to the context, without blocking a thread."""
        return await self._answered(ON_LOOP, ctx)

    async def _answered(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        sample = needed(ctx.sample, "sample", self)
        skillbook = needed(ctx.skillbook, "skillbook", self)
        if self.retrieval is not None:
            skillbook = SelectedSkills(skillbook, self.retrieval(sample.question, skillbook))
            ctx = ctx.replace(metadata={**ctx.metadata, "shown_skill_ids": skillbook.ids})
        if isinstance(self.agent, ShowsSkills):  # it may show fewer than it is given
            shown = self.agent.shown_skills(sample.question, skillbook)
            ctx = ctx.replace(metadata={**ctx.metadata, "shown_skill_ids": tuple(skill.id for skill in shown)})
        with model_calls_for(ctx, "Agent"):
            # One after the other: a resumed run finds recorded answers by their order.
            outputs = [await self._answer(calling, ctx, sample, skillbook) for _ in range(self.answers)]
        return ctx.replace(agent_output=outputs[0], further_answers=tuple(outputs[1:]))

    async def _answer(
        self, calling: Calling, ctx: ACEStepContext, sample: ACESample, skillbook: SkillbookView
    ) -> AgentOutput:
        try:
            return await call_agent(
                calling,
                self.agent,
                sample.question,
                sample.context,
                skillbook,
                sample=sample,
                **recent_reflections_for(ctx),
            )
        except EmptyAnswerError as error:
            if not self.empty_counts:
                raise
            return error.output


def answer_trace(question: str, context: str, ground_truth: str | None, output: AgentOutput) -> AnswerTrace:
    """Return the trace of an answer before it is judged.

    Args:
        question: The question or task.
        context: Further material for the answer.
        ground_truth: The right answer, if it is known.
        output: The answer.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> answer_trace("2+2?", "", "4", AgentOutput(reasoning="Add.", final_answer="4"))["answer"]
        '4'
    """
    return AnswerTrace(
        question=question,
        context=context,
        ground_truth=ground_truth,
        reasoning=output.reasoning,
        answer=output.final_answer,
        skill_ids=list(output.skill_ids),
    )


@checked_class
class EvaluateStep:
    """Builds the trace of a live run, with the judgement of an environment if one is given.

    The trace is an `AnswerTrace`, a dict with question, context, ground_truth, reasoning, answer and skill_ids. If an
    environment judged the answer, it also has feedback, metrics, and check, which says how a later answer can be
    judged. If nothing verified the answer (`EnvironmentResult.verified`, or no metrics and no ground truth), the trace
    has `verified` with False instead.

    Args:
        environment: The environment; its `evaluate` may be `async def`.
    """

    requires = frozenset({"sample", "agent_output"})
    provides = frozenset({"trace"})

    def __init__(self, environment: TaskEnvironment | None = None) -> None:
        self.environment = environment

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its environment is plain, asynchronous or both."""
        return awaited_where(self.environment, "evaluate")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the trace to the context."""
        return finished(self._evaluated(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the trace to the context, without blocking a thread."""
        return await self._evaluated(ON_LOOP, ctx)

    async def _evaluated(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        sample = needed(ctx.sample, "sample", self)
        output = needed(ctx.agent_output, "agent_output", self)
        trace = answer_trace(sample.question, sample.context, sample.ground_truth, output)
        if self.environment is None:
            if not sample.ground_truth:
                trace["verified"] = False
        else:
            result = await call_environment(calling, self.environment, sample, output, ctx.further_answers)
            if is_observed():
                name, metrics = type(self.environment).__name__, dict(result.metrics)
                emit(AnswerEvaluated(run_of(ctx), str(ctx.metadata.get("trace_id", "")), name, metrics))
            trace["feedback"] = result.feedback
            trace["metrics"] = dict(result.metrics)
            if result.verified and (result.metrics or result.ground_truth is not None):
                trace["check"] = self._check(sample).to_dict()
            else:
                trace["verified"] = False
            if result.ground_truth is not None:
                trace["ground_truth"] = result.ground_truth
        return ctx.replace(trace=trace)

    def _check(self, sample: Sample) -> CaseCheck:
        """Return the check of the environment. One that does not inherit from our class may have no `check_of`."""
        check_of: Callable[[Sample], CaseCheck] | None = getattr(self.environment, "check_of", None)
        return CaseCheck("environment", type(self.environment).__name__) if check_of is None else check_of(sample)
