"""`ACELiteLLM`: one object to ask and to teach."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from ace.arguments import checked_arguments
from ace.context import ACESample, SkillbookView
from ace.protocols.calling import BLOCKING, finished
from ace.protocols.role_calls import call_agent
from ace.runners.clients import client_and_options
from ace.runners.facade_runners import FacadeRunners
from ace.runners.failures import FailedSample
from ace.runners.runner_background import summed_stats
from ace.runners.settings import LearningOptions, LearningSettings
from ace.skillbook.book import Skillbook
from ace.steps.answer_trace import answer_trace

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.environments import TaskEnvironment
    from ace.outputs import AgentOutput
    from ace.pipeline import SampleResult
    from ace.protocols.agent import AgentLike
    from ace.protocols.llm import AnyLLMClient
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
            checkpoint_interval, extra_steps, allow, max_adds; see `LearningSettings`.

    Raises:
        ValueError: Two options exclude each other.
    """

    @checked_arguments(LearningOptions)
    def __init__(
        self,
        llm: AnyLLMClient,
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
        self._runners = FacadeRunners(LearningSettings(**options))
        self._last: tuple[str, str, AgentOutput] | None = None
        self._learning_enabled = True

    @classmethod
    @checked_arguments()
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
        client, options = client_and_options(cls, model, own, max_tokens=max_tokens, temperature=temperature, **kwargs)
        return cls(client, **options)

    @property
    def skillbook(self) -> Skillbook:
        """The book that is used and taught."""
        return self._runners.skillbook

    @checked_arguments()
    def ask(self, question: str, context: str = "") -> str:
        """Return the agent's answer.

        Args:
            question: The question or task.
            context: Whatever the answer may draw on.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
            RoleError: The agent returned something else than an `AgentOutput`.
        """
        self.skillbook.refresh()
        output = finished(call_agent(BLOCKING, self.agent, question, context, SkillbookView(self.skillbook)))
        self._last = (question, context, output)
        return output.final_answer

    @checked_arguments()
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
        runner = self._runners.learner(self.agent, self.reflector, self.skill_manager, judge)
        return runner.run(samples, epochs, wait=wait, run_id=run_id, resume=resume)

    @checked_arguments()
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
        runner = self._runners.analyser(self.reflector, self.skill_manager)
        return runner.run(traces, epochs, wait=wait, run_id=run_id, resume=resume)

    @checked_arguments()
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
        trace = answer_trace(question, context, ground_truth, output)
        [result] = self.learn_from_traces([{**trace, "feedback": feedback}])
        return result.error is None

    @property
    def learning_enabled(self) -> bool:
        """Whether learning is switched on; it is at first."""
        return self._learning_enabled

    @property
    def is_learning(self) -> bool:
        """The name of `learning_enabled` in other frameworks."""
        return self.learning_enabled

    def enable_learning(self) -> None:
        """Switch learning on."""
        self._learning_enabled = True

    def disable_learning(self) -> None:
        """Switch learning off: `learn` and `learn_from_traces` raise, `learn_from_feedback` returns False."""
        self._learning_enabled = False

    @property
    def failures(self) -> list[FailedSample]:
        """The samples that failed so far, with the raw answers of the model."""
        return [failed for runner in self._runners for failed in runner.failures]

    @property
    def learning_stats(self) -> dict[str, int]:
        """Samples in the background so far: active, queued, completed and, of these, failed."""
        return summed_stats(runner.learning_stats for runner in self._runners)

    def wait_for_background(self, timeout: float | None = None) -> None:
        """Wait until everything is learned; see `ACERunner.wait_for_background`.

        Args:
            timeout: Seconds to wait at most, for each runner; None waits for ever.
        """
        for runner in self._runners:
            runner.wait_for_background(timeout)

    def get_strategies(self) -> str:
        """Return the skills as text for the prompt of an agent; empty if there are none."""
        from ace.implementations.prompts import wrap_skillbook_for_external_agent

        return wrap_skillbook_for_external_agent(SkillbookView(self.skillbook))

    def save(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Save the skillbook as it is now; see `Skillbook.save_to_file`.

        Args:
            path: A JSON file, or a new store (`.db`).
            merge: Add to what others have written into the file.
            overwrite: Replace the skillbook in the file, whatever it holds.

        Raises:
            SkillbookChangedError: The file changed since it was read or saved here, or holds a skillbook that this one
                was not loaded from.
            SkillbookFileError: The file exists and is not a skillbook.
        """
        self.skillbook.save_to_file(path, merge=merge, overwrite=overwrite)

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
        self._runners.go_on_with(new, path)

    save_skillbook = save
    load_skillbook = load
    wait_for_learning = wait_for_background

    def _check_enabled(self) -> None:
        if not self._learning_enabled:
            raise RuntimeError("learning is switched off; call enable_learning() first")
