"""`ACELiteLLM`: one object to ask and to teach."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from ace.context import ACESample, SkillbookView
from ace.runners.ace import ACE
from ace.runners.base import ACERunner
from ace.runners.clients import client_from_model
from ace.runners.failures import FailedSample
from ace.runners.settings import LearningOptions, LearningSettings
from ace.runners.trace_analyser import TraceAnalyser
from ace.skillbook.book import Skillbook

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.environments import TaskEnvironment
    from ace.outputs import AgentOutput
    from ace.pipeline import SampleResult
    from ace.protocols.agent import AgentLike
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.reflector import ReflectorLike
    from ace.protocols.skill_manager import SkillManagerLike

__all__ = ["ACELiteLLM"]


class ACELiteLLM:
    """Ask questions, and teach with samples, traces or feedback; all of it with one skillbook.

    Args:
        llm: The client of the three roles.
        environment: Who judges answers in `learn`.
        agent: Another agent than `Agent(llm)`.
        reflector: Another reflector than `Reflector(llm)`.
        skill_manager: Another skill manager than `SkillManager(llm)`.
        **options: skillbook or skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir,
            checkpoint_interval, extra_steps, allow; see `LearningSettings`.

    Raises:
        ValueError: Two options exclude each other.
    """

    def __init__(
        self,
        llm: LLMClientLike,
        *,
        environment: TaskEnvironment | None = None,
        agent: AgentLike | None = None,
        reflector: ReflectorLike | None = None,
        skill_manager: SkillManagerLike | None = None,
        **options: Unpack[LearningOptions],
    ) -> None:
        from ace.implementations import agent_for, reflector_for, skill_manager_for

        self.agent: AgentLike = agent_for(llm) if agent is None else agent
        self.reflector: ReflectorLike = reflector_for(llm) if reflector is None else reflector
        self.skill_manager: SkillManagerLike = skill_manager_for(llm) if skill_manager is None else skill_manager
        self.environment = environment
        self._settings = LearningSettings(**options)
        self._skillbook = self._settings.book()
        self._learner: ACE | None = None
        self._judge: TaskEnvironment | None = None
        self._analyser: TraceAnalyser | None = None
        self._dropped: list[ACERunner] = []
        self._last: tuple[str, str, AgentOutput] | None = None
        self._learning_enabled = True

    @classmethod
    def from_model(
        cls, model: str = "gpt-4o-mini", *, max_tokens: int = 2048, temperature: float = 0.0, **kwargs: Any
    ) -> Self:
        """Make one for a model.

        Args:
            model: A LiteLLM model string.
            max_tokens: The longest answer, in tokens.
            temperature: The sampling temperature.
            **kwargs: The arguments of the class; all others go to the client, such as api_base.
        """
        own = {"environment", "agent", "reflector", "skill_manager", *LearningOptions.__annotations__}
        client = client_from_model(
            model,
            max_tokens=max_tokens,
            temperature=temperature,
            **{name: value for name, value in kwargs.items() if name not in own},
        )
        return cls(client, **{name: value for name, value in kwargs.items() if name in own})

    @property
    def skillbook(self) -> Skillbook:
        """The book that is used and taught."""
        return self._skillbook

    def ask(self, question: str, context: str = "") -> str:
        """Return the agent's answer.

        Args:
            question: The question or task.
            context: Whatever the answer may draw on.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        self._skillbook.refresh()
        output = self.agent.generate(question=question, context=context, skillbook=SkillbookView(self._skillbook))
        self._last = (question, context, output)
        return output.final_answer

    def learn(
        self,
        samples: Iterable[ACESample],
        environment: TaskEnvironment | None = None,
        epochs: int = 1,
        *,
        wait: bool = True,
        run_id: str | None = None,
        resume: bool = False,
    ) -> list[SampleResult[ACEStepContext]]:
        """Answer samples and learn from them, see `ACE.run`.

        Args:
            samples: The samples; a sequence if there are several epochs.
            environment: Who judges; by default the one given at construction.
            epochs: How often.
            wait: Whether to return only when everything is learned.
            run_id: The name of the run.
            resume: Whether to go on with a run that was killed or stopped.

        Raises:
            ValueError: The run cannot be resumed.
            RuntimeError: Learning is switched off.
        """
        self._check_enabled()
        judge = self.environment if environment is None else environment
        if self._learner is None or self._judge is not judge:
            self._drop(self._learner)
            self._judge = judge
            settings = self._settings
            steps = ACE._steps(self.agent, self.reflector, self.skill_manager, judge, None, settings, self._skillbook)
            self._learner = ACE._composed(steps, self._skillbook, settings)
        return self._learner.run(samples, epochs, wait=wait, run_id=run_id, resume=resume)

    def learn_from_traces(
        self,
        traces: Iterable[Any],
        epochs: int = 1,
        *,
        wait: bool = True,
        run_id: str | None = None,
        resume: bool = False,
    ) -> list[SampleResult[ACEStepContext]]:
        """Learn from recorded traces, see `TraceAnalyser.run`.

        Args:
            traces: The traces, of any type; a sequence if there are several epochs.
            epochs: How often.
            wait: Whether to return only when everything is learned.
            run_id: The name of the run.
            resume: Whether to go on with a run that was killed or stopped.

        Raises:
            ValueError: The run cannot be resumed.
            RuntimeError: Learning is switched off.
        """
        self._check_enabled()
        if self._analyser is None:
            settings = self._settings
            steps = settings.tail(self.reflector, self.skill_manager, self._skillbook)
            self._analyser = TraceAnalyser._composed(steps, self._skillbook, settings)
        return self._analyser.run(traces, epochs, wait=wait, run_id=run_id, resume=resume)

    def learn_from_feedback(self, feedback: str, ground_truth: str | None = None) -> bool:
        """Learn from what somebody says about the last answer of `ask`.

        Args:
            feedback: What was good or bad about it.
            ground_truth: The right answer, where it is known.

        Returns:
            Whether it was learned from. False before any `ask`, while learning is switched off, and if it failed
            (see `failures`).
        """
        if self._last is None or not self._learning_enabled:
            return False
        question, context, output = self._last
        trace = {
            "question": question,
            "context": context,
            "ground_truth": ground_truth,
            "reasoning": output.reasoning,
            "answer": output.final_answer,
            "skill_ids": list(output.skill_ids),
            "feedback": feedback,
        }
        [result] = self.learn_from_traces([trace])
        return result.error is None

    @property
    def learning_enabled(self) -> bool:
        """Whether learning is switched on; it is at first."""
        return self._learning_enabled

    def enable_learning(self) -> None:
        """Switch learning on."""
        self._learning_enabled = True

    def disable_learning(self) -> None:
        """Switch learning off: `learn` and `learn_from_traces` raise, `learn_from_feedback` returns False."""
        self._learning_enabled = False

    @property
    def failures(self) -> list[FailedSample]:
        """The samples that failed so far, with the raw answers of the model."""
        return [failed for runner in self._runners() for failed in runner.failures]

    @property
    def learning_stats(self) -> dict[str, int]:
        """Samples in the background so far: active, queued, completed and, of these, failed."""
        stats = [runner.learning_stats for runner in self._runners()]
        return {name: sum(each[name] for each in stats) for name in ("active", "queued", "completed", "failed")}

    def wait_for_background(self, timeout: float | None = None) -> None:
        """Wait until everything is learned; see `ACERunner.wait_for_background`.

        Args:
            timeout: Seconds to wait at most, for each runner; None waits for ever.
        """
        for runner in self._runners():
            runner.wait_for_background(timeout)

    def get_strategies(self) -> str:
        """Return the skills as text for the prompt of an agent; empty if there are none."""
        from ace.implementations.prompts import wrap_skillbook_for_external_agent

        return wrap_skillbook_for_external_agent(SkillbookView(self._skillbook))

    def save(self, path: str | Path) -> None:
        """Save the skillbook as it is now.

        Args:
            path: A JSON file, or a new store (`.db`).
        """
        self._skillbook.save_to_file(path)

    def load(self, path: str | Path) -> None:
        """Go on with the skillbook of a file. What is in the background is learned into the old one first.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: There is no such file.
            SkillbookFileError: It is no skillbook; the one that is used stays.
        """
        new = Skillbook.load_from_file(path)
        self.wait_for_background()
        self._drop(self._learner)
        self._drop(self._analyser)
        self._learner = self._analyser = None
        self._settings = self._settings.moved(self._skillbook, new, path)
        self._skillbook = new

    save_skillbook = save
    load_skillbook = load
    wait_for_learning = wait_for_background

    def _runners(self) -> list[ACERunner]:
        return [*self._dropped, *(runner for runner in (self._learner, self._analyser) if runner is not None)]

    def _drop(self, runner: ACERunner | None) -> None:
        if runner is not None:
            self._dropped.append(runner)

    def _check_enabled(self) -> None:
        if not self._learning_enabled:
            raise RuntimeError("learning is switched off; call enable_learning() first")
