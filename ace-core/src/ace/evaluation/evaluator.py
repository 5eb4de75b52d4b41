"""Has an agent answer samples with a skillbook, and an environment judge the answers. Nothing is learned."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, final

from ace.arguments import checked_arguments, checked_class
from ace.calls.model_calls import call_scope, current_call_scope
from ace.context import ACESample, ACEStepContext, SkillbookView
from ace.evaluation.answer_file import AnswerFile
from ace.evaluation.attempts import AnswerKeys, Attempt, attempts_at
from ace.evaluation.call_costs import EVALUATION_PREFIX, CallCosts
from ace.evaluation.evaluation import Evaluation
from ace.evaluation.judged import JudgedAnswer
from ace.pipeline import CancellationToken, Pipeline, SampleResult, StepProtocol
from ace.protocols.observers import observing
from ace.runners.run_limits import RunLimits
from ace.skillbook import Skillbook
from ace.steps import AgentStep, EvaluateStep

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.protocols.roles import AgentLike, Retrieval

__all__ = ["Evaluator"]


@checked_class
@final
class Evaluator:
    """Has an agent answer samples, and an environment judge the answers. The skillbook is only read.

    Args:
        agent: Who answers.
        environment: Who judges. Its metric `correct` counts.
        retrieval: Chooses the skills that the agent sees; by default it sees them all.
        workers: How many agents run at once.
        answers_path: A file that keeps every answer. What it has is not asked again, unless it failed.
        label: What the answers in that file depend on beside samples and skills, such as the name of the model, its
            settings and the environment. Answers of another label are asked for anew.

    Raises:
        ValueError: The file holds something else, or `workers` is below 1.
    """

    def __init__(
        self,
        agent: AgentLike,
        environment: TaskEnvironment,
        *,
        retrieval: Retrieval | None = None,
        workers: int = 1,
        answers_path: str | Path | None = None,
        label: str = "",
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers!r}")
        self.agent = agent
        self.environment = environment
        self.retrieval = retrieval
        self.workers = workers
        self.label = label
        self._file = None if answers_path is None else AnswerFile(answers_path)

    @checked_arguments()
    def evaluate(
        self,
        samples: Sequence[ACESample],
        skillbook: Skillbook | None = None,
        *,
        name: str = "learned",
        repeats: int = 1,
        max_cost: float | None = None,
        cancel_token: CancellationToken | None = None,
        on_answer: Callable[[JudgedAnswer], None] | None = None,
    ) -> Evaluation:
        """Have every sample answered and judged. A sample that fails is a wrong answer.

        Args:
            samples: The samples.
            skillbook: The skills; without any by default.
            name: What is evaluated, for reports.
            repeats: How often each sample is answered.
            max_cost: US dollars. When the answers have cost so much, no further sample begins.
            cancel_token: Stops it; what is under way is finished.
            on_answer: Called with each answer when it is there; with those that were kept in the file, at once.

        Returns:
            The answers. If it was stopped, some are missing; the file has those that are there.

        Raises:
            ValueError: There is no sample, or an argument is invalid.
        """
        if not samples:
            raise ValueError("there is no sample to evaluate on")
        if repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {repeats!r}")
        if max_cost is not None and not max_cost > 0:
            raise ValueError(f"max_cost must be more than 0 US dollars, got {max_cost!r}")
        book = Skillbook() if skillbook is None else skillbook
        prefix = f"{EVALUATION_PREFIX}{uuid.uuid4().hex}/"
        keys = None if self._file is None else AnswerKeys(book, self.retrieval, self.label)
        attempts = attempts_at(samples, repeats, keys)
        found: dict[int, JudgedAnswer] = {}
        for attempt in attempts:
            known = None if self._file is None else self._file.find(attempt.key)
            if known is not None:
                found[attempt.place] = replace(known, sample_id=attempt.name, repeat=attempt.repeat)
                if on_answer is not None:
                    on_answer(found[attempt.place])
        left = [attempt for attempt in attempts if attempt.place not in found]

        def keep(attempt: Attempt, answer: JudgedAnswer) -> None:
            found[attempt.place] = answer
            if self._file is not None:
                self._file.keep(attempt.key, answer)
            if on_answer is not None:
                on_answer(answer)

        token = CancellationToken() if cancel_token is None else cancel_token
        stopped_by = self._answer(left, book, prefix, token, max_cost, keep) if left else ""
        answers = tuple(found[place] for place in sorted(found))
        paid = sum(found[attempt.place].cost or 0.0 for attempt in left if attempt.place in found)
        return Evaluation(name, answers, len(attempts), stopped_by if len(answers) < len(attempts) else "", paid)

    def _answer(
        self,
        attempts: Sequence[Attempt],
        book: Skillbook,
        prefix: str,
        token: CancellationToken,
        max_cost: float | None,
        keep: Callable[[Attempt, JudgedAnswer], None],
    ) -> str:
        """Have the attempts answered, and each answer kept. Returns what stopped it."""
        # Each attempt gets a sample object of its own, by which its result is known.
        copies = [copy.copy(attempt.sample) for attempt in attempts]
        by_sample = {id(sample): attempt for sample, attempt in zip(copies, attempts, strict=True)}
        began: dict[int, float] = {}
        costs = CallCosts(prefix)
        view = SkillbookView(book)
        everything = tuple(skill.id for skill in book.skills())

        def contexts() -> Iterator[ACEStepContext]:
            for sample, attempt in zip(copies, attempts, strict=True):
                if token.is_cancelled:
                    return
                began[attempt.place] = time.monotonic()
                about = MappingProxyType({"trace_id": f"{prefix}{attempt.place}"})
                yield ACEStepContext(sample=sample, skillbook=view, metadata=about)

        problems: list[BaseException] = []

        def done(result: SampleResult[ACEStepContext]) -> None:
            attempt = by_sample[id(result.sample)]
            spent = costs.take(f"{prefix}{attempt.place}")
            try:
                answer = replace(
                    _judged(attempt, result, everything),
                    calls=spent.calls,
                    input_tokens=spent.input_tokens,
                    output_tokens=spent.output_tokens,
                    cost=spent.cost,
                    seconds=time.monotonic() - began.pop(attempt.place),
                )
                keep(attempt, answer)
            except BaseException as error:  # the pipeline would only log it, and go on paying
                problems.append(error)
                token.cancel()

        # Inside of a training run the calls count for that run, but are none of its recorded ones.
        scope = replace(current_call_scope(), store=None, answers=None, sample="")
        scope = scope if scope.run_id else replace(scope, run_id=prefix)
        limits = RunLimits(scope.run_id, token, max_cost, False)
        steps: list[StepProtocol[ACEStepContext]] = [
            AgentStep(self.agent, retrieval=self.retrieval, empty_counts=True),
            EvaluateStep(self.environment),
        ]
        with (
            call_scope(scope),
            observing(costs),
            observing(limits.observe),
            Pipeline[ACEStepContext](steps) as pipeline,
        ):
            # The token ends the input, not what is under way: an answer that was paid for is judged and kept.
            pipeline.run(contexts(), self.workers, done)
        if problems:
            raise problems[0]
        return limits.stopped_by


def _judged(attempt: Attempt, result: SampleResult[ACEStepContext], everything: tuple[str, ...]) -> JudgedAnswer:
    """Return the judgement of one attempt, without what it cost."""
    sample = attempt.sample
    blank = JudgedAnswer(
        sample_id=attempt.name,
        question=sample.question,
        repeat=attempt.repeat,
        correct=0.0,
        ground_truth=sample.ground_truth,
        shown=everything,
    )
    ctx = result.output
    if ctx is None or ctx.agent_output is None or not isinstance(ctx.trace, dict):
        return replace(blank, error=f"{type(result.error).__name__} in {result.failed_at}: {result.error}")
    trace = ctx.trace
    answered = replace(
        blank,
        answer=ctx.agent_output.final_answer,
        feedback=str(trace.get("feedback", "")),
        shown=tuple(ctx.metadata.get("shown_skill_ids", everything)),
        cited=tuple(ctx.agent_output.skill_ids),
    )
    correct = trace.get("metrics", {}).get("correct")
    if correct is None:
        return replace(answered, error=f"the environment gave no metric 'correct': {trace.get('feedback', '')}")
    try:
        return replace(answered, correct=float(correct))
    except (TypeError, ValueError, OverflowError) as error:
        return replace(answered, error=f"the environment gave an impossible metric: {error}")
